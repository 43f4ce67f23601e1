-- What a store's trees are of: one row per world, split and difficulty.
select k.world, k.split, k.difficulty, count(distinct t.task_id) as tasks, count(*) as trees,
    count(t.success) as judged, avg(t.success) as success
from trees as t join tasks as k on k.task_id = t.task_id group by all order by all
