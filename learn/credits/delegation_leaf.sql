-- Delegation credit (SERA): a delegating turn is paid the root's reward times the share of the tree it brought about.
-- Event: one act turn of a factual node with at least one launched child. Reward = R_root * |leaves below the turn's
-- children| / |leaves of the tree|; a leaf is a factual node without factual children. A turn that tried to delegate
-- and launched nothing (refused or invalid) is an event of reward 0.
-- Baseline, root-balanced leave-one-out: m_i = mean event reward of tree i, 0 without events; the baseline of tree i
-- is the mean of the other trees' m_j. Fewer than two valid roots: no row.
-- Spans: the launches of the turn (the refused ones where none was launched), overlapping ones joined; an event whose
-- launches have no tokens in the completion is dropped before m_i. Policies without token ids keep the event with an
-- empty span.
with roots as (
    select n.run_id, n.epoch, n.task_id, n.tree_id, v.value as reward
    from factual n
    join verdicts v on v.node_id = n.node_id
    where n.parent_id is null and n.purpose = 'delegation' and n.outcome <> 'infra_error' and v.value is not null
),

launches as (
    select
        p.tree_id,
        p.node_id,
        p.depth,
        t.turn_id,
        t.completion_ids is null as without_ids,
        unnest(t.delegations) as launch
    from factual p
    join roots r on r.tree_id = p.tree_id
    join turns t on t.node_id = p.node_id
    where t.kind = 'act' and p.outcome <> 'infra_error'
),

attempts as (
    select
        tree_id,
        node_id,
        depth,
        turn_id,
        launch.delegation_id as delegation_id,
        launch.status = 'launched' as launched,
        case when without_ids then 0 else launch.token_start end as token_start,
        case when without_ids then 0 else launch.token_end end as token_end,
        without_ids or coalesce(launch.token_end > launch.token_start, false) as has_span,
        bool_or(launch.status = 'launched') over (partition by turn_id) as turn_launched
    from launches
),

covered as (
    select a.turn_id, count(distinct l.leaf_id) as n_leaves
    from attempts a
    join factual c on c.delegation_id = a.delegation_id
    join leaves l on l.node_id = c.node_id
    where a.launched
    group by a.turn_id
),

whole as (
    select node_id, count(distinct leaf_id) as n_leaves
    from leaves
    group by node_id
),

-- a launch whose child never started leaves a turn without coverage: neither an event nor an invalid attempt
paid as (
    select
        a.tree_id,
        a.node_id,
        a.depth,
        a.turn_id,
        a.token_start,
        a.token_end,
        case when a.turn_launched then r.reward * c.n_leaves / w.n_leaves else 0.0 end as reward
    from attempts a
    join roots r on r.tree_id = a.tree_id
    join whole w on w.node_id = a.tree_id
    left join covered c on c.turn_id = a.turn_id
    where a.has_span and a.launched = a.turn_launched and (c.turn_id is not null or not a.turn_launched)
),

-- two launches of a turn may share a token, such as '},{': their spans become one
reached as (
    select
        *,
        max(token_end) over (
            partition by turn_id
            order by token_start, token_end
            rows between unbounded preceding and 1 preceding
        ) as reach
    from paid
),

islands as (
    select
        *,
        count(*) filter (reach is null or token_start >= reach) over (
            partition by turn_id
            order by token_start, token_end
            rows unbounded preceding
        ) as island
    from reached
),

spans as (
    select
        tree_id,
        node_id,
        depth,
        turn_id,
        reward,
        min(token_start) as token_start,
        max(token_end) as token_end
    from islands
    group by tree_id, node_id, depth, turn_id, reward, case when token_end > token_start then island else 0 end
),

events as (
    select distinct tree_id, turn_id, reward
    from spans
),

means as (
    select r.run_id, r.epoch, r.task_id, r.tree_id, coalesce(fsum(e.reward order by e.reward) / count(e.turn_id), 0) as m
    from roots r
    left join events e on e.tree_id = r.tree_id
    group by all
),

totals as (
    select run_id, epoch, task_id, count(*) as n, fsum(m order by m) as total
    from means
    group by all
)

select
    s.turn_id,
    s.node_id as trajectory_id,
    'delegation' as stage,
    s.token_start,
    s.token_end,
    s.reward,
    (t.total - m.m) / (t.n - 1) as baseline,
    s.reward - (t.total - m.m) / (t.n - 1) as advantage,
    s.depth,
    concat(m.epoch, '/', m.task_id) as group_id
from spans s
join means m on m.tree_id = s.tree_id
join totals t on t.run_id = m.run_id and t.epoch = m.epoch and t.task_id = m.task_id
where t.n > 1
