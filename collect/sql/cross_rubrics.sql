-- The rubric that was frozen and applied in each of the named delegations: the first valid attempt.
select distinct on (delegation_id)
    delegation_id, rubric_id, items, success_gate, failure_conditions, procedure
from rubrics
where delegation_id in (select unnest($delegations)) and valid and phase = 'collect' and k = 0
order by delegation_id, attempt
