-- The same counts per bootstrap replicate: the tasks' cells added up with the tasks' weights.
-- Slices may take the first `slice_reps` replicates only, which keeps a million nodes within half a minute.
create or replace temp table score_reps as
select c.slice, c.level, w.rep, c.score, sum(w.weight * c.n) as n, sum(w.weight * c.a) as a
from (from score_cells where slice = 'all') c
join boot_weights w using (task_id)
group by all
union all
select c.slice, c.level, w.rep, c.score, sum(w.weight * c.n) as n, sum(w.weight * c.a) as a
from (from score_cells where slice <> 'all') c
join (from boot_weights where rep <= $slice_reps) w using (task_id)
group by all
