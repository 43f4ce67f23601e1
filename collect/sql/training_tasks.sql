-- The tasks that were played for training: credited stages and warm starts, not evaluation or selection.
select distinct
    t.task_id, t.world, t.profile, t.split, t.difficulty, t.goal, t.spec, t.family, t.seed, t.upstream_id
from tasks as t
semi join (select distinct task_id from nodes where purpose in ('execution', 'delegation', 'rubric', 'warm')) as n
    on n.task_id = t.task_id
order by t.task_id
