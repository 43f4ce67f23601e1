-- Success credit, for imitation: every agent of a tree that succeeded gets advantage 1 on its act turns, whatever the
-- other trees of the group did; there is no baseline. Children whose own verdict is failure get no row: what they did
-- is not to be imitated. Turns that did not parse or that the world refused stay context.
-- Trees of every purpose but evaluation and checkpoint choice: warm-start groups are made for this. Stage: execution.
with won as (
    select n.tree_id
    from factual n
    join verdicts v on v.node_id = n.node_id
    where n.parent_id is null and n.purpose not in ('eval', 'select') and n.outcome <> 'infra_error' and v.value = 1
)

select
    t.turn_id,
    n.node_id as trajectory_id,
    'execution' as stage,
    0 as token_start,
    coalesce(len(t.completion_ids), 0) as token_end,
    1.0 as reward,
    0.0 as baseline,
    1.0 as advantage,
    n.depth,
    concat(n.epoch, '/', n.task_id) as group_id
from factual n
join won w on w.tree_id = n.tree_id
join turns t on t.node_id = n.node_id
left join verdicts v on v.node_id = n.node_id
where t.kind = 'act' and t.ok and n.outcome <> 'infra_error' and coalesce(v.value, 1) = 1
