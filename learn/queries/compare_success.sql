-- One row per task of an evaluation: share of its judged samples that succeed, and whether any does.
select task_id, avg(success::double) as success, max(success::double) as success_at, count(*) as n
from evals
where protocol = $protocol and success is not null
group by task_id
order by task_id
