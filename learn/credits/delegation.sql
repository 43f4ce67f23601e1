-- Delegation credit: a delegating turn is paid the root's reward times the share of the tree that it brought about.
-- Event: one act turn of a factual node with at least one launched child; a turn that tried and launched nothing
-- (refused or invalid) is an event of reward $invalid_reward.
-- Reward = R_root * weight, the weight by $weight:
--   leaf      leaves below the turn's children / leaves of the tree; a leaf is a factual node without factual children
--   workload  least steps of the children's goals / least steps of the root's, at most $workload_cap; both as the
--             world's program label states them ('least_steps'), an event without them is no event
-- $gate = 'success': only what lies below children with a verdict of success counts.
-- Baseline by $baseline, over trees whose root has a verdict; fewer than two of them: no row.
--   root_balanced    m_i = mean event reward of tree i; the mean of the other trees' m_j
--   flat             the mean over all other events of the group, whatever their tree; a single event gets no row
--   credit_weighted  weight * the mean of the other trees' root rewards, so that A = weight * (R_root - that mean)
-- A tree without events has m_i by $no_event: 'zero' (reference), 'root' (its root's reward), 'exclude' (it is not
-- there).
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

children as (
    select a.turn_id, a.tree_id, c.node_id, $gate <> 'success' or coalesce(v.value >= 1, false) as counts
    from attempts a
    join factual c on c.delegation_id = a.delegation_id
    left join verdicts v on v.node_id = c.node_id
    where a.launched
),

leaves_of as (
    select node_id, count(distinct leaf_id) as amount
    from leaves
    where $weight = 'leaf'
    group by node_id
),

steps_of as (
    select node_id, max(try_cast(json_extract_string(details, '$.least_steps') as double)) as amount
    from labels
    where $weight = 'workload' and kind = 'program' and valid and "use" = 'train'
    group by node_id
),

amounts as (
    select node_id, amount from leaves_of
    union all
    select node_id, amount from steps_of where amount > 0
),

-- subtrees of different children never share a leaf, so their amounts add up
weights as (
    select
        c.turn_id,
        least(
            sum(case when c.counts then a.amount else 0 end) / max(w.amount),
            case when $weight = 'workload' then $workload_cap else 1 end
        ) as weight
    from children c
    join amounts a on a.node_id = c.node_id
    join amounts w on w.node_id = c.tree_id
    group by c.turn_id
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
        case when a.turn_launched then c.weight else 0.0 end as weight,
        case when a.turn_launched then r.reward * c.weight else $invalid_reward end as reward
    from attempts a
    join roots r on r.tree_id = a.tree_id
    left join weights c on c.turn_id = a.turn_id
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
        weight,
        reward,
        min(token_start) as token_start,
        max(token_end) as token_end
    from islands
    group by tree_id, node_id, depth, turn_id, weight, reward, case when token_end > token_start then island else 0 end
),

events as (
    select distinct tree_id, turn_id, reward
    from spans
),

by_tree as (
    select
        r.run_id,
        r.epoch,
        r.task_id,
        r.tree_id,
        r.reward as root_reward,
        count(e.turn_id) as n_events,
        coalesce(fsum(e.reward order by e.reward), 0) as event_total,
        case
            when count(e.turn_id) > 0 then fsum(e.reward order by e.reward) / count(e.turn_id)
            when $no_event = 'zero' then 0
            when $no_event = 'root' then r.reward
        end as m
    from roots r
    left join events e on e.tree_id = r.tree_id
    group by r.run_id, r.epoch, r.task_id, r.tree_id, r.reward
),

by_group as (
    select
        run_id,
        epoch,
        task_id,
        count(*) as n_roots,
        count(m) as n,
        fsum(m order by m) as total,
        fsum(root_reward order by root_reward) as root_total,
        sum(n_events) as n_events,
        fsum(event_total order by event_total) as event_total
    from by_tree
    group by run_id, epoch, task_id
),

compared as (
    select
        s.*,
        case
            when $baseline = 'flat' then (g.event_total - s.reward) / nullif(g.n_events - 1, 0)
            when $baseline = 'credit_weighted' then s.weight * (g.root_total - m.root_reward) / (g.n_roots - 1)
            else (g.total - m.m) / nullif(g.n - 1, 0)
        end as baseline,
        concat(m.epoch, '/', m.task_id) as group_id
    from spans s
    join by_tree m on m.tree_id = s.tree_id
    join by_group g on g.run_id = m.run_id and g.epoch = m.epoch and g.task_id = m.task_id
    where g.n_roots > 1
)

select
    turn_id,
    node_id as trajectory_id,
    'delegation' as stage,
    token_start,
    token_end,
    reward,
    baseline,
    reward - baseline as advantage,
    depth,
    group_id
from compared
where baseline is not null
