-- Execution credit with verified rewards (RAO): every factual node of an execution group is paid for its own label.
-- Reward: root = its verdict; child = its own verdict + $lambda * mean verdict of its immediate children.
-- Baseline: leave-one-out mean of the ROOT rewards of the other trees of the group, for children as well. Roots that
-- ended in infra_error or have no verdict do not count. One root only: $single = 'own_root' takes its own reward as
-- the baseline (reference), 'drop' gives no row (recommended).
-- Spans: whole completions of act turns, except error turns of nodes that succeeded (reward >= 1).
with roots as (
    select n.run_id, n.epoch, n.task_id, n.tree_id, v.value as reward
    from factual n
    join verdicts v on v.node_id = n.node_id
    where n.parent_id is null and n.purpose = 'execution' and n.outcome <> 'infra_error' and v.value is not null
),

totals as (
    select run_id, epoch, task_id, count(*) as n, fsum(reward order by reward) as total
    from roots
    group by all
),

baselines as (
    select
        r.tree_id,
        r.reward as root_reward,
        case when t.n > 1 then (t.total - r.reward) / (t.n - 1) else r.reward end as baseline
    from roots r
    join totals t on t.run_id = r.run_id and t.epoch = r.epoch and t.task_id = r.task_id
    where t.n > 1 or $single = 'own_root'
),

-- success of the immediate children, for the delegation bonus
helped as (
    select c.parent_id as node_id, fsum(v.value order by v.value) / count(*) as share
    from factual c
    join verdicts v on v.node_id = c.node_id
    where c.parent_id is not null and c.outcome <> 'infra_error' and v.value is not null
    group by c.parent_id
),

rewards as (
    select
        n.node_id,
        n.depth,
        concat(n.epoch, '/', n.task_id) as group_id,
        b.baseline,
        case
            when n.parent_id is null then b.root_reward
            else v.value + $lambda * coalesce(h.share, 0)
        end as reward
    from factual n
    join baselines b on b.tree_id = n.tree_id
    join verdicts v on v.node_id = n.node_id
    left join helped h on h.node_id = n.node_id
    where n.outcome <> 'infra_error' and v.value is not null
)

select
    t.turn_id,
    r.node_id as trajectory_id,
    'execution' as stage,
    0 as token_start,
    coalesce(len(t.completion_ids), 0) as token_end,
    r.reward,
    r.baseline,
    r.reward - r.baseline as advantage,
    r.depth,
    r.group_id
from rewards r
join turns t on t.node_id = r.node_id
where t.kind = 'act' and (t.ok or r.reward < 1)
