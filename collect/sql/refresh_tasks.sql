-- The tasks that some trees played.
select r.tree_id, r.run_id, t.task_id, t.world, t.profile, t.split, t.difficulty, t.goal, t.spec, t.family, t.seed, t.upstream_id
from nodes as r
join tasks as t on t.task_id = r.task_id
where r.node_id in (select unnest($trees::varchar[]))
