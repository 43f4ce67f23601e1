-- The tasks that one evaluation played, as they were stored with its trees.
select distinct
    t.task_id, t.world, t.profile, t.split, t.difficulty, t.goal, t.spec, t.family, t.seed, t.upstream_id
from tasks as t
semi join (select task_id from evals where run_id = $run_id and epoch = $epoch) as e on e.task_id = t.task_id
order by t.task_id
