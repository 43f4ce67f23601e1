-- The evals rows named by a run id or by a policy version, of one protocol or of all.
select *
from evals
where (run_id = $run_id or policy_version = $version) and ($protocol is null or protocol = $protocol)
order by run_id, protocol, policy_version, task_id, sample
