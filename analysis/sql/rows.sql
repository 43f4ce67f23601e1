-- Rows per table of the audited view.
select table_name, n from (
    select 'runs' as table_name, count(*) as n from runs union all
    select 'tasks', count(*) from tasks union all
    select 'nodes', count(*) from nodes union all
    select 'turns', count(*) from turns union all
    select 'rubrics', count(*) from rubrics union all
    select 'branches', count(*) from branches union all
    select 'labels', count(*) from labels union all
    select 'scores', count(*) from scores union all
    select 'updates', count(*) from updates union all
    select 'evals', count(*) from evals
)
