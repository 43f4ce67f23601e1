-- Nodes of some trees with what their replay needs: states, clock, and how their launch was scheduled.
select n.node_id, n.tree_id, n.task_id, n.parent_id, n.depth, n.targets, n.start_state, n.end_digest, n.outcome,
    n.on_path, n.order_start, n.order_end, coalesce(b.committed, true) as committed,
    coalesce(b.scheduling, 'sequential') as scheduling
from nodes as n
left join branches as b on b.delegation_id = n.delegation_id and b.branch = n.branch
where list_contains($trees, n.tree_id)
order by n.tree_id, n.order_start, n.node_id
