-- One row per task, the first epoch's; `task_rows` holds one row per task and epoch.
select distinct on (task_id) * from task_rows order by task_id, epoch, shard_id
