-- The task that one tree played.
select t.task_id, t.world, t.profile, t.split, t.difficulty, t.goal, t.spec, t.family, t.seed, t.upstream_id
from tasks as t
where t.task_id = (select any_value(task_id) from nodes where tree_id = $tree)
limit 1
