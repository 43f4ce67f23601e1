-- One row per task with the id of its first root, whose opening is the prompt that a policy is trained on.
select k.task_id, k.world, k.profile, k.split, k.difficulty, k.goal, k.spec, k.upstream_id, min(n.node_id) as node_id
from tasks as k join nodes as n on n.task_id = k.task_id and n.parent_id is null
where n.outcome <> 'infra_error'
group by all order by k.task_id
