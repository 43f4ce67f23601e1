-- The same tasks in consecutive epochs: per task the change of mean score and of success, in units of 1e-9, summed per
-- block. Level 'a to b' names the two epochs; level 'all' is every such change.
create or replace temp table drift_cells as
with
mean as (
    select task, epoch, any_value(block) as block, avg(score) as score, avg(y) as y
    from audit_located
    where valid
    group by task, epoch
),
known as (
    select epoch, lead(epoch) over (order by epoch) as next_epoch from (select distinct epoch from audit_scored where valid)
),
change as (
    select
        k.epoch || ' to ' || k.next_epoch as level, early.task, early.block,
        (1e9 * (late.score - early.score))::bigint as d_score, (1e9 * (late.y - early.y))::bigint as d_success
    from known as k
    join mean as early on early.epoch = k.epoch
    join mean as late on late.epoch = k.next_epoch and late.task = early.task
)
select
    'drift' as slice, coalesce(level, 'all') as level, block, count(distinct task) as tasks, count(*) as changes,
    sum(d_score) as d_score, sum(d_success) as d_success
from change
group by grouping sets ((level, block), (block))
