-- Credited turns sampled at another temperature than $wanted (one is enough to refuse).
select t.turn_id, t.temperature
from turns as t
join credit_rows as c on c.turn_id = t.turn_id
where abs(t.temperature - $wanted) > 1e-6
order by t.turn_id
limit 1
