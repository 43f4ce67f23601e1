-- The optimizer steps that consumed the open tree's group of samples.
select epoch, update, stage, method, version_in, version_out
from updates
where skip_reason is null and list_contains(group_ids, $epoch::varchar || '/' || $task_id)
order by update
