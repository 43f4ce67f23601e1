-- Scorer credit: a score is paid by the same labels that pay rubrics, so that the scorer learns to tell success from
-- failure.
-- Taken: scores of attempt 0, phase collect, first rubric, on the first $k branches of complete forked delegations of
-- rubric-purpose trees; branches with a verdict.
-- Reward = -(s - y)^2, the proper score of s against the verdict y; with $invalid = 'penalty' an invalid score gets
-- the worst, -1, else it gives no row.
-- Baseline: leave-one-out mean over the other scores of the delegation; a single one gets advantage 0.
-- Spans: the whole score completion, a trajectory of its own (trajectory_id = its turn).
-- Only delegations of $epochs 'all', 'even' or 'odd' epochs.
with trees_in_stage as (
    select tree_id
    from nodes
    where parent_id is null and purpose = 'rubric' and outcome <> 'infra_error'
        and ($epochs = 'all' or epoch % 2 = case when $epochs = 'odd' then 1 else 0 end)
),

rewards as (
    select
        n.epoch,
        n.task_id,
        n.depth,
        n.delegation_id,
        s.turn_id,
        case when s.valid then -((s.final_score - (v.value >= 0.5)::int) ** 2) else -1.0 end + 0.0 as reward
    from nodes n
    join trees_in_stage i on i.tree_id = n.tree_id
    join branches b on b.delegation_id = n.delegation_id and b.branch = n.branch
    join rubrics r on r.delegation_id = n.delegation_id
    join scores s on s.rubric_id = r.rubric_id and s.node_id = n.node_id and s.shard_id = n.shard_id
    join verdicts v on v.node_id = n.node_id
    where b.complete and b.k > 1 and b.branch < $k and v.value is not null
        and r.phase = 'collect' and r.attempt = 0 and r.k = 0 and r.valid
        and s.phase = 'collect' and s.attempt = 0 and (s.valid or $invalid = 'penalty')
),

totals as (
    select delegation_id, count(*) as n, fsum(reward order by reward) as total
    from rewards
    group by delegation_id
),

compared as (
    select
        r.*,
        case when t.n > 1 then (t.total - r.reward) / (t.n - 1) else r.reward end as baseline
    from rewards r
    join totals t on t.delegation_id = r.delegation_id
)

select
    c.turn_id,
    c.turn_id as trajectory_id,
    'rubric' as stage,
    0 as token_start,
    coalesce(len(t.completion_ids), 0) as token_end,
    c.reward,
    c.baseline,
    c.reward - c.baseline as advantage,
    c.depth,
    concat(c.epoch, '/', c.task_id) as group_id
from compared c
join turns t on t.turn_id = c.turn_id
