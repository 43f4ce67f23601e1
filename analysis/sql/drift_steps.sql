-- The steps between consecutive epochs, with the tasks that were scored in both.
select level, sum(changes)::bigint as n, sum(tasks)::bigint as tasks
from drift_cells
where level <> 'all'
group by level
order by try_cast(split_part(level, ' ', 1) as int)
