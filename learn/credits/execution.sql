-- Execution credit: every paid node of a group of $purpose gets one advantage, on all its act turns.
-- Reward of a root: its verdict. Reward of a child by $reward:
--   verdict   its own verdict, from a program where one can check, else from people or judges     (RAO)
--   program, judge   the same from labels of that kind only
--   rubric    final_score under the rubric frozen before it ran, by the scorer of its own shard    (SERA)
--   weighted  the same with the recomputed sum of weight x item score
--   root      nothing: only roots are paid
-- verdict, program and judge add $lambda * mean reward of the immediate children (RAO). Attempt 0 only; an invalid
-- rubric or score gives the node no row.
-- Baseline, always leave-one-out: a root's is the mean of the other trees' roots. A child's by $child_baseline:
--   root        the same as its root's (reference)
--   depth       the mean over the nodes of its depth in the other trees of the group
--   delegation  the mean over the other branches of its delegation
-- A child without such a peer gets no row.
-- One root only: $single = 'own_root' takes its own reward as baseline, 'drop' gives no row. $normalise = 'deviation'
-- (GRPO): the mean of all roots, itself included, and A / their standard deviation.
-- $branches: 'factual' pays what really happened; 'all' pays the first $k branches of complete forked delegations as
-- well, each against its other branches and with weight 1 / their number, so that a delegation counts once; 'only'
-- pays those branches and nothing else.
-- Spans: whole completions of act turns, without the error turns of nodes that succeeded (a root or labelled child:
-- reward >= 1; a scored child: the scorer's flag), which stay context. Worlds named in $train_errors train them.
with trees_in_stage as (
    select n.run_id, n.epoch, n.task_id, n.tree_id, v.value as reward
    from factual n
    left join verdicts v on v.node_id = n.node_id
    where n.parent_id is null and n.purpose = $purpose and n.outcome <> 'infra_error'
),

roots as (
    select * from trees_in_stage where reward is not null
),

scored_children as (
    select
        n.node_id,
        case when $reward = 'weighted' then s.weighted_score else s.final_score end as reward,
        coalesce(s.success, s.final_score >= 1) as success
    from nodes n
    join scores s on s.node_id = n.node_id and s.shard_id = n.shard_id
    join rubrics r on r.rubric_id = s.rubric_id and r.delegation_id = n.delegation_id
    where $reward in ('rubric', 'weighted') and n.purpose = $purpose
        and s.phase = 'collect' and s.attempt = 0 and s.valid
        and r.phase = 'collect' and r.attempt = 0 and r.k = 0 and r.valid
),

judged as (
    select node_id, case when avg(value) > 0.5 then 1.0 when avg(value) < 0.5 then 0.0 end as value
    from labels
    where $reward = 'judge' and kind = 'judge' and "use" = 'train' and valid and value is not null
    group by node_id
),

labelled as (
    select node_id, value from verdicts where $reward = 'verdict'
    union all
    select node_id, value from verdicts where $reward = 'program' and kind = 'program'
    union all
    select node_id, value from judged
),

-- success of the immediate children, for the delegation bonus
helped as (
    select c.parent_id as node_id, fsum(v.value order by v.value) / count(*) as share
    from factual c
    join labelled v on v.node_id = c.node_id
    where $lambda <> 0 and c.parent_id is not null and c.outcome <> 'infra_error' and v.value is not null
    group by c.parent_id
),

rewards as (
    select tree_id as node_id, reward, reward >= 1 as success from trees_in_stage
    union all
    select node_id, reward, success from scored_children
    union all
    select n.node_id, v.value + $lambda * coalesce(h.share, 0) as reward, v.value >= 1 as success
    from nodes n
    join labelled v on v.node_id = n.node_id
    left join helped h on h.node_id = n.node_id
    where n.parent_id is not null and n.purpose = $purpose
),

forked as (
    select delegation_id, branch
    from branches
    where k > 1 and complete and branch < $k and ($branches <> 'factual' or $child_baseline = 'delegation')
),

members as (
    select
        n.run_id,
        n.epoch,
        n.task_id,
        n.tree_id,
        n.node_id,
        n.delegation_id,
        n.depth,
        n.on_path,
        w.reward,
        w.success,
        f.branch is not null as is_branch
    from nodes n
    join trees_in_stage i on i.tree_id = n.tree_id
    join rewards w on w.node_id = n.node_id
    left join forked f on f.delegation_id = n.delegation_id and f.branch = n.branch
    where w.reward is not null and n.outcome <> 'infra_error' and (n.on_path or f.branch is not null)
),

by_root as (
    select
        run_id,
        epoch,
        task_id,
        count(*) as n,
        fsum(reward order by reward) as total,
        stddev_pop(reward) as deviation
    from roots
    group by all
),

own_root as (
    select o.tree_id, o.reward, b.n, b.total, b.deviation
    from roots o
    join by_root b on b.run_id = o.run_id and b.epoch = o.epoch and b.task_id = o.task_id
),

by_tree as (
    select run_id, epoch, task_id, tree_id, depth, count(*) as n, fsum(reward order by reward) as total
    from members
    where on_path and depth > 0 and $child_baseline = 'depth'
    group by all
),

by_depth as (
    select run_id, epoch, task_id, depth, sum(n) as n, fsum(total order by total) as total
    from by_tree
    group by all
),

by_delegation as (
    select delegation_id, count(*) as n, fsum(reward order by reward) as total
    from members
    where is_branch
    group by delegation_id
),

compared as (
    select
        m.*,
        $branches <> 'factual' and m.is_branch as counts_once,
        f.n as n_branches,
        greatest(r.deviation, 1e-6) as scale,
        case
            when m.is_branch and ($branches <> 'factual' or $child_baseline = 'delegation')
                then (f.total - m.reward) / nullif(f.n - 1, 0)
            when m.depth > 0 and $child_baseline = 'delegation' then null
            when m.depth > 0 and $child_baseline = 'depth' then (d.total - t.total) / nullif(d.n - t.n, 0)
            when $normalise = 'deviation' then r.total / r.n
            when r.n > 1 then (r.total - r.reward) / (r.n - 1)
            when $single = 'own_root' then r.reward
        end as baseline
    from members m
    left join own_root r on r.tree_id = m.tree_id
    left join by_tree t on t.tree_id = m.tree_id and t.depth = m.depth
    left join by_depth d
        on d.run_id = m.run_id and d.epoch = m.epoch and d.task_id = m.task_id and d.depth = m.depth
    left join by_delegation f on f.delegation_id = m.delegation_id
    where $branches = 'all' or ($branches = 'factual' and m.on_path) or ($branches = 'only' and m.is_branch)
),

paid as (
    select
        c.node_id,
        c.depth,
        c.reward,
        c.baseline,
        case
            when c.counts_once then (c.reward - c.baseline) / c.n_branches
            when $normalise = 'deviation' then (c.reward - c.baseline) / c.scale
            else c.reward - c.baseline
        end as advantage,
        concat(c.epoch, '/', c.task_id) as group_id,
        c.success and not list_contains(string_split($train_errors, ','), coalesce(k.world, '')) as skips_errors
    from compared c
    left join tasks k on k.task_id = c.task_id
    where c.baseline is not null
)

select
    t.turn_id,
    p.node_id as trajectory_id,
    $purpose as stage,
    0 as token_start,
    coalesce(len(t.completion_ids), 0) as token_end,
    p.reward,
    p.baseline,
    p.advantage,
    p.depth,
    p.group_id
from paid p
join turns t on t.node_id = p.node_id
where t.kind = 'act' and (t.ok or not p.skips_errors)
