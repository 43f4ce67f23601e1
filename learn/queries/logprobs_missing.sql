-- Turns that stages train, of the groups in `trained` (stage, group_id), for which run $run_id computed nothing: by stage
-- how many and the first of them.
select c.stage, count(distinct c.turn_id) as n_turns, min(c.turn_id) as first_turn
from credited as c
join trained as g on (g.stage, g.group_id) = (c.stage, c.group_id)
anti join (select turn_id from logprobs where run_id = $run_id) as l on l.turn_id = c.turn_id
where c.trainable and c.selected
group by c.stage
order by c.stage
