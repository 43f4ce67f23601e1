-- Trainable credited turns sampled at another temperature than $wanted (one is enough to refuse).
select t.turn_id, t.temperature
from turns as t
where abs(t.temperature - $wanted) > 1e-6 and t.turn_id in (select turn_id from credited where trainable and selected)
order by t.turn_id
limit 1
