-- Every id that a row names exists, here or in an earlier seal.
select node_id as id, 'task_id ' || task_id || ' is not in tasks' as fault
from fresh.nodes anti join known.tasks using (task_id)
union all
select n.node_id, 'parent_id ' || n.parent_id || ' is not in nodes'
from fresh.nodes as n anti join known.nodes as p on p.node_id = n.parent_id where n.parent_id is not null
union all
select n.node_id, 'delegation ' || n.delegation_id || ' branch ' || n.branch || ' is not in branches'
from fresh.nodes as n
anti join known.branches as b on b.delegation_id = n.delegation_id and b.branch = n.branch and b.node_id = n.node_id
where n.delegation_id is not null
union all
select turn_id, 'node_id ' || node_id || ' is not in nodes' from fresh.turns anti join known.nodes using (node_id)
union all
select rubric_id, 'node_id ' || node_id || ' is not in nodes' from fresh.rubrics anti join known.nodes using (node_id)
union all
select rubric_id, 'turn_id ' || turn_id || ' is not in turns' from fresh.rubrics anti join known.turns using (turn_id)
union all
select rubric_id, 'delegation_id ' || delegation_id || ' is not in branches'
from fresh.rubrics anti join known.branches using (delegation_id)
union all
select b.delegation_id || ' branch ' || b.branch, 'node_id ' || b.node_id || ' is not in nodes'
from fresh.branches as b anti join known.nodes as n on n.node_id = b.node_id where b.node_id is not null
union all
select b.delegation_id || ' branch ' || b.branch, 'parent_id ' || b.parent_id || ' is not in nodes'
from fresh.branches as b anti join known.nodes as n on n.node_id = b.parent_id
union all
select delegation_id || ' branch ' || branch, 'turn_id ' || turn_id || ' is not in turns'
from fresh.branches anti join known.turns using (turn_id)
union all
select node_id || ' label ' || source, 'node_id ' || node_id || ' is not in nodes'
from fresh.labels anti join known.nodes using (node_id)
union all
select rubric_id || ' on ' || node_id, 'rubric_id ' || rubric_id || ' is not in rubrics'
from fresh.scores anti join known.rubrics using (rubric_id)
union all
select rubric_id || ' on ' || node_id, 'node_id ' || node_id || ' is not in nodes'
from fresh.scores anti join known.nodes using (node_id)
union all
select rubric_id || ' on ' || node_id, 'turn_id ' || turn_id || ' is not in turns'
from fresh.scores anti join known.turns using (turn_id)
union all
select task_id || ' eval', 'task_id ' || task_id || ' is not in tasks' from fresh.evals anti join known.tasks using (task_id)
order by 1, 2
