-- A root has no parent, delegation or branch and its own id as tree id; every other node has all three. Depth grows by
-- one, and a node is on path when its parent is and its branch is committed.
select node_id as id, 'parent_id, delegation_id and branch must be null together' as fault
from fresh.nodes
where (parent_id is null) <> (delegation_id is null) or (parent_id is null) <> (branch is null)
union all
select node_id, 'a root has its own id as tree_id, depth 0 and is on path'
from fresh.nodes where parent_id is null and (tree_id <> node_id or depth <> 0 or not on_path)
union all
select n.node_id, 'tree_id, task_id and depth must follow from the parent ' || n.parent_id
from fresh.nodes as n join known.nodes as p on p.node_id = n.parent_id
where n.tree_id <> p.tree_id or n.task_id <> p.task_id or n.depth <> p.depth + 1
union all
select n.node_id, 'on_path is ' || n.on_path || ', the parent''s is ' || p.on_path || ' and its branch is '
    || case when b.committed then 'committed' else 'not committed' end
from fresh.nodes as n
join known.nodes as p on p.node_id = n.parent_id
join known.branches as b on b.delegation_id = n.delegation_id and b.branch = n.branch
where n.on_path <> (p.on_path and b.committed)
order by 1, 2
