-- Rubric credit (SERA): a rubric is paid for ranking the successful branches of its delegation above the failed ones.
-- Reward = -L, L = mean over success x failure pairs of max(0, $margin - gap), a gap within $epsilon of the margin
-- counting as reached, because 0.7 - 0.5 < 0.2 in floating point.
-- Taken: complete delegations, on or off path, of rubric-purpose trees whose root did not end in infra_error; attempt
-- 0 of phase collect; branches with a valid score and a verdict; both outcomes present.
-- Baseline: leave-one-out mean over the ranked delegations of the task; a single one gets advantage 0.
-- Spans: the whole rubric completion. trajectory_id = rubric_id, depth = depth of the branches.
with trees_in_stage as (
    select tree_id
    from nodes
    where parent_id is null and purpose = 'rubric' and outcome <> 'infra_error'
),

judged as (
    select
        n.run_id,
        n.epoch,
        n.task_id,
        n.depth,
        r.rubric_id,
        r.turn_id,
        n.node_id,
        s.final_score as score,
        v.value >= 0.5 as success
    from nodes n
    join trees_in_stage i on i.tree_id = n.tree_id
    join branches b on b.delegation_id = n.delegation_id and b.branch = n.branch
    join rubrics r on r.delegation_id = n.delegation_id
    join scores s on s.rubric_id = r.rubric_id and s.node_id = n.node_id and s.shard_id = n.shard_id
    join verdicts v on v.node_id = n.node_id
    where b.complete and v.value is not null
        and r.phase = 'collect' and r.attempt = 0 and r.k = 0 and r.valid
        and s.phase = 'collect' and s.attempt = 0 and s.valid
),

ranked as (
    select
        w.run_id,
        w.epoch,
        w.task_id,
        w.depth,
        w.rubric_id,
        w.turn_id,
        list(
            case when w.score - l.score >= $margin - $epsilon then 0.0 else $margin - (w.score - l.score) end
        ) as hinges
    from judged w
    join judged l on l.rubric_id = w.rubric_id
    where w.success and not l.success
    group by all
),

rewards as (
    select
        *,
        -list_sum(list_sort(hinges)) / len(hinges) + 0.0 as reward
    from ranked
),

totals as (
    select run_id, epoch, task_id, count(*) as n, fsum(reward order by reward) as total
    from rewards
    group by all
),

baselines as (
    select
        r.*,
        case when t.n > 1 then (t.total - r.reward) / (t.n - 1) else r.reward end as baseline
    from rewards r
    join totals t on t.run_id = r.run_id and t.epoch = r.epoch and t.task_id = r.task_id
)

select
    b.turn_id,
    b.rubric_id as trajectory_id,
    'rubric' as stage,
    0 as token_start,
    coalesce(len(t.completion_ids), 0) as token_end,
    b.reward,
    b.baseline,
    b.reward - b.baseline as advantage,
    b.depth,
    concat(b.epoch, '/', b.task_id) as group_id
from baselines b
join turns t on t.turn_id = b.turn_id
