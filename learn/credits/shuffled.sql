-- Control: the same rows with the advantages dealt to other trajectories of the same stage and group. Everything else
-- (groups, spans, the set of advantages) stays, so that training on it shows what credit itself contributes.
-- A unit is the set of spans of one trajectory that share one advantage (all of an execution, one delegating turn).
-- The deal is a permutation by md5 of $seed and the unit: repeatable anywhere.
with units as (
    select distinct stage, group_id, trajectory_id, reward, baseline, advantage
    from credit_rows
),

placed as (
    select
        *,
        row_number() over (
            partition by stage, group_id
            order by trajectory_id, advantage, reward
        ) as seat,
        row_number() over (
            partition by stage, group_id
            order by md5(concat_ws('|', $seed, trajectory_id, advantage, reward)), trajectory_id, advantage, reward
        ) as draw
    from units
)

select
    c.turn_id,
    c.trajectory_id,
    c.stage,
    c.token_start,
    c.token_end,
    d.reward,
    d.baseline,
    d.advantage,
    c.depth,
    c.group_id
from credit_rows c
join placed p
    on p.stage = c.stage and p.group_id = c.group_id and p.trajectory_id = c.trajectory_id
        and p.reward = c.reward and p.baseline = c.baseline and p.advantage = c.advantage
join placed d on d.stage = p.stage and d.group_id = p.group_id and d.seat = p.draw
