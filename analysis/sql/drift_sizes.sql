-- How many changes of a task between consecutive epochs the drift rests on.
select coalesce(sum(changes), 0)::bigint as n, coalesce(sum(tasks), 0)::bigint as tasks from drift_cells where level = 'all'
