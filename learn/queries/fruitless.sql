-- Real updates per learn phase of a run, newest epoch first.
select epoch, count(*) filter (skip_reason is null) as n_updates
from updates
where run_id = $run_id
group by epoch
order by epoch desc
