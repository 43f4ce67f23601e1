-- The evals rows of one evaluation: one run in one epoch.
select *
from evals
where run_id = $run_id and epoch = $epoch
order by task_id, sample
