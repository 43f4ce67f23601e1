-- The tasks that some trees played.
select t.task_id, t.world, t.profile, t.split, t.difficulty, t.goal, t.spec, t.family, t.seed, t.upstream_id
from tasks as t
where t.task_id in (select task_id from nodes where list_contains($trees, tree_id))
order by t.task_id
