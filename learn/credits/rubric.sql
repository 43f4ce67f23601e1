-- Rubric credit: a rubric is paid for what its scores tell about the branches of its delegation.
-- Taken: complete forked delegations, on or off path, of rubric-purpose trees whose root did not end in infra_error;
-- their first $k branches with a verdict; both outcomes present (brier: one is enough). Attempt 0 only.
-- Reward by $objective, s the score and y the verdict of a branch, i a success and j a failure:
--   rank       - mean over pairs of max(0, $margin - (s_i - s_j)); a gap within $epsilon of the margin counts as
--              reached, because 0.7 - 0.5 < 0.2 in floating point
--   rank_disc  $order_weight * mean over pairs of clip((s_i - s_j) / $margin, 0, 1)
--              + (1 - $order_weight) * clip($spread * standard deviation of all scores, 0, 1)
--   brier      - mean over branches of (s - y)^2
-- $invalid = 'skip' (reference): an invalid rubric gives no row and a branch with an invalid score is left out.
-- 'penalty': an invalid rubric gets the worst reward, -(1 + $margin), 0 or -1; an invalid score counts as the worst
-- pair or branch.
-- Baseline by $baseline, leave-one-out: 'task' (reference) over the delegations of the task, one rubric each;
-- 'delegation' over the other rubrics of the same delegation, or where it has one rubric over the means of the task's
-- other delegations. One delegation with one rubric gets advantage 0.
-- $refresh: '' reads the rubrics and scores of phase collect; the run id of a refresh reads that run's.
-- Spans: the whole rubric completion. trajectory_id = rubric_id, depth = depth of the branches.
-- Only delegations of $epochs 'all', 'even' or 'odd' epochs.
with trees_in_stage as (
    select tree_id
    from nodes
    where parent_id is null and purpose = 'rubric' and outcome <> 'infra_error'
        and ($epochs = 'all' or epoch % 2 = case when $epochs = 'odd' then 1 else 0 end)
),

forks as (
    select n.run_id, n.epoch, n.task_id, n.depth, n.delegation_id, n.node_id, n.shard_id, v.value >= 0.5 as success
    from nodes n
    join trees_in_stage i on i.tree_id = n.tree_id
    join branches b on b.delegation_id = n.delegation_id and b.branch = n.branch
    join verdicts v on v.node_id = n.node_id
    where b.complete and b.k > 1 and b.branch < $k and v.value is not null
),

written as (
    select rubric_id, delegation_id, turn_id, valid
    from rubrics
    where attempt = 0 and (k = 0 or $baseline = 'delegation') and writer not in ('global', 'direct')
        and case when $refresh = '' then phase = 'collect' else phase = 'refresh' and run_id = $refresh end
),

given as (
    select rubric_id, node_id, shard_id, final_score
    from scores
    where attempt = 0 and valid
        and case when $refresh = '' then phase = 'collect' else phase = 'refresh' and run_id = $refresh end
),

judged as (
    select
        f.run_id,
        f.epoch,
        f.task_id,
        f.depth,
        f.delegation_id,
        r.rubric_id,
        r.turn_id,
        r.valid,
        f.node_id,
        f.success,
        g.final_score as score
    from forks f
    join written r on r.delegation_id = f.delegation_id
    left join given g
        on g.rubric_id = r.rubric_id and g.node_id = f.node_id and (g.shard_id = f.shard_id or $refresh <> '')
    where $invalid = 'penalty' or (r.valid and g.final_score is not null)
),

pairs_of as (
    select
        w.rubric_id,
        list_sort(
            list(
                case
                    when w.score is null or l.score is null then 1 + $margin
                    when w.score - l.score >= $margin - $epsilon then 0.0
                    else $margin - (w.score - l.score)
                end
            ) filter (where $objective = 'rank')
        ) as hinges,
        list_sort(
            list(
                case
                    when w.score is null or l.score is null then 0.0
                    when w.score - l.score >= $margin - $epsilon then 1.0
                    else greatest((w.score - l.score) / $margin, 0.0)
                end
            ) filter (where $objective = 'rank_disc')
        ) as orders
    from judged w
    join judged l on l.rubric_id = w.rubric_id
    where w.success and not l.success and $objective <> 'brier'
    group by w.rubric_id
),

branches_of as (
    select
        run_id,
        epoch,
        task_id,
        depth,
        delegation_id,
        rubric_id,
        turn_id,
        valid,
        coalesce(stddev_pop(score), 0) as deviation,
        list_sort(
            list(case when score is null then 1.0 else (score - success::int) ** 2 end)
            filter (where $objective = 'brier')
        ) as squares
    from judged
    group by all
),

rewards as (
    select
        b.run_id,
        b.epoch,
        b.task_id,
        b.depth,
        b.delegation_id,
        b.rubric_id,
        b.turn_id,
        case
            when not b.valid then case $objective when 'rank' then -(1 + $margin) when 'brier' then -1.0 else 0.0 end
            when $objective = 'brier' then -list_sum(b.squares) / len(b.squares)
            when $objective = 'rank' then -list_sum(p.hinges) / len(p.hinges)
            else
                $order_weight * list_sum(p.orders) / len(p.orders)
                + (1 - $order_weight) * least($spread * b.deviation, 1)
        end + 0.0 as reward
    from branches_of b
    left join pairs_of p on p.rubric_id = b.rubric_id
    where $objective = 'brier' or p.rubric_id is not null
),

by_delegation as (
    select run_id, epoch, task_id, delegation_id, count(*) as n, fsum(reward order by reward) as total
    from rewards
    group by run_id, epoch, task_id, delegation_id
),

by_task as (
    select run_id, epoch, task_id, count(*) as n, fsum(total / n order by total / n) as total
    from by_delegation
    group by run_id, epoch, task_id
),

compared as (
    select
        r.*,
        case
            when d.n > 1 then (d.total - r.reward) / (d.n - 1)
            when t.n > 1 then (t.total - d.total / d.n) / (t.n - 1)
            else r.reward
        end as baseline
    from rewards r
    join by_delegation d on d.delegation_id = r.delegation_id
    join by_task t on t.run_id = r.run_id and t.epoch = r.epoch and t.task_id = r.task_id
)

select
    c.turn_id,
    c.rubric_id as trajectory_id,
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
