-- Rows, tokens and means per stage and depth, and per stage (depth null). Means are over trajectories, in the
-- delegation stage over delegating turns, so that a long episode weighs no more than a short one. `wanted_groups`
-- holds the groups that train: stage, group_id.
with units as (
    select
        c.stage,
        c.depth,
        c.trajectory_id,
        any_value(c.reward) as reward,
        any_value(c.advantage) as advantage,
        count(*) as n_rows,
        sum(c.token_end - c.token_start) as tokens,
        coalesce(
            sum(c.token_end - c.token_start) filter (c.trainable and c.selected and w.group_id is not null), 0
        ) as training_tokens
    from credited c
    left join wanted_groups w on w.stage = c.stage and w.group_id = c.group_id
    group by c.stage, c.depth, c.trajectory_id, case when c.stage = 'delegation' then c.turn_id end
)

select
    stage,
    depth,
    sum(n_rows)::bigint as n_rows,
    count(distinct trajectory_id) as trajectories,
    sum(tokens)::bigint as tokens,
    sum(training_tokens)::bigint as training_tokens,
    avg(reward) as mean_reward,
    avg(advantage) as mean_advantage,
    avg(abs(advantage)) as mean_abs_advantage
from units
group by grouping sets ((stage, depth), (stage))
order by stage, depth nulls first
