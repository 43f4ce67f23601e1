-- Clusters of the bootstrap: one block per task, in the order of task ids. With more than $most_blocks tasks, tasks share
-- blocks by md5, which stays valid (coarser clusters) and bounds the work. `seed` drives the block's weights.
create or replace temp table boot_blocks as
with
task as (
    select task_id from audit_groups
    union
    select task_id from audit_judged
),
named as (
    select
        task_id,
        case
            when count(*) over () <= $most_blocks then task_id
            else (md5_number_lower(task_id) % $most_blocks)::varchar
        end as name
    from task
)
select
    task_id,
    (dense_rank() over (order by task_id))::int as task,
    (dense_rank() over (order by name) - 1)::int as block,
    (md5_number_lower(concat_ws(':', $seed, name)) % 2147483646)::bigint + 1 as seed
from named
