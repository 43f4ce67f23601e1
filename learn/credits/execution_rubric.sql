-- Execution credit with rubric rewards (SERA): a child is paid the score it got under the rubric frozen before it ran.
-- Reward: root = its verdict; child = final_score, attempt 0 of phase collect by the scorer that served the tree's own
-- work unit (same shard), under the delegation's first rubric. An invalid rubric or score gives the node no row.
-- Baseline: leave-one-out mean of the ROOT rewards of the other trees of the group, for children as well. Roots that
-- ended in infra_error or have no verdict do not count. One root only: $single = 'own_root' takes its own reward as
-- the baseline (reference), 'drop' gives no row (recommended).
-- Spans: whole completions of act turns, except error turns of nodes that succeeded (children: the scorer's success
-- flag, or a score of 1 when the scorer gave none; roots: reward >= 1).
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

judged as (
    select n.node_id, s.final_score as reward, coalesce(s.success, s.final_score >= 1) as success
    from factual n
    join scores s on s.node_id = n.node_id and s.shard_id = n.shard_id
    join rubrics r on r.rubric_id = s.rubric_id and r.delegation_id = n.delegation_id
    where s.phase = 'collect' and s.attempt = 0 and s.valid
        and r.phase = 'collect' and r.attempt = 0 and r.k = 0 and r.valid
),

rewards as (
    select n.node_id, b.root_reward as reward, b.root_reward >= 1 as success, b.baseline
    from baselines b
    join factual n on n.node_id = b.tree_id
    union all
    select n.node_id, j.reward, j.success, b.baseline
    from factual n
    join baselines b on b.tree_id = n.tree_id
    join judged j on j.node_id = n.node_id
    where n.parent_id is not null and n.outcome <> 'infra_error'
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
    n.depth,
    concat(n.epoch, '/', n.task_id) as group_id
from rewards r
join factual n on n.node_id = r.node_id
join turns t on t.node_id = r.node_id
where t.kind = 'act' and (t.ok or not r.success)
