-- The rows of some groups of a stage that a datum is built from; `wanted_groups` holds one group_id a row.
select
    turn_id,
    trajectory_id,
    stage,
    token_start,
    token_end,
    reward,
    baseline,
    advantage,
    depth,
    group_id,
    trainable
from credited
where stage = $stage and trainable and selected and group_id in (select group_id from wanted_groups)
order by stage, group_id, trajectory_id, turn_id, token_start
