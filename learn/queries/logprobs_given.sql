-- Log-probabilities that run $run_id computed for the turns of `wanted` (one turn_id a row).
select turn_id, logprobs
from logprobs
where run_id = $run_id and turn_id in (select turn_id from wanted)
order by turn_id
