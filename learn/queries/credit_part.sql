-- What is wrong with a rule's rows by column: nulls, and numbers that the column cannot hold (no whole number within 32
-- bits, or not finite within $largest); how many rows there are, and their stages.
select
    count(*) as n_rows,
    count(*) - count(turn_id) as turn_id_nulls,
    count(*) - count(trajectory_id) as trajectory_id_nulls,
    count(*) - count(stage) as stage_nulls,
    count(*) - count(token_start) as token_start_nulls,
    count(*) - count(token_end) as token_end_nulls,
    count(*) - count(reward) as reward_nulls,
    count(*) - count(baseline) as baseline_nulls,
    count(*) - count(advantage) as advantage_nulls,
    count(*) - count(depth) as depth_nulls,
    count(*) - count(group_id) as group_id_nulls,
    count(*) filter (token_start <> round(token_start) or abs(token_start) > 2147483647) as token_start_wrong,
    count(*) filter (token_end <> round(token_end) or abs(token_end) > 2147483647) as token_end_wrong,
    count(*) filter (not isfinite(reward::double) or abs(reward) > $largest) as reward_wrong,
    count(*) filter (not isfinite(baseline::double) or abs(baseline) > $largest) as baseline_wrong,
    count(*) filter (not isfinite(advantage::double) or abs(advantage) > $largest) as advantage_wrong,
    count(*) filter (depth <> round(depth) or abs(depth) > 2147483647) as depth_wrong,
    list(distinct stage order by stage) as stages
from credit_part
