-- Counts per slice, task and distinct score: n scored nodes, `a` of them successful. Everything about levels starts here.
create or replace temp table score_cells as
with sliced as (
    select
        task_id, score, y,
        unnest([
            {'slice': 'all', 'level': 'all'},
            {'slice': 'depth', 'level': depth::varchar},
            {'slice': 'difficulty', 'level': difficulty},
            {'slice': 'epoch', 'level': epoch::varchar}
        ], recursive := true)
    from audit_scored
)
select slice, level, task_id, score, count(*)::double as n, sum(y)::double as a
from sliced
group by all
