-- One row per rubric with audited rows: what all its branches share. length_tenth: tenth of the mean branch length among
-- all delegations, 1 (shortest) to 10; ties together.
create or replace temp table audit_groups as
with shared as (
    select group_id, any_value(depth) as depth, any_value(epoch) as epoch, avg(length) as mean_length
    from audit_scored
    group by group_id
)
select
    s.group_id, s.depth, s.epoch, w.task_id, w.difficulty, w.world,
    least(floor(10 * (rank() over (order by mean_length) - 1 + count(*) over (partition by mean_length) / 2)
        / count(*) over ()), 9)::int + 1 as length_tenth
from shared as s
join audit_written as w on w.group_id = s.group_id
