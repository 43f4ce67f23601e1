-- Tasks that are held out of training: a share of them, by the macro `held_out` of every connection to a store.
select distinct task_id
from nodes
where parent_id is null and held_out(task_id, $share)
order by task_id
