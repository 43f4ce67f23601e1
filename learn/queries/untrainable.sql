-- Credited turns that no likelihood ratio can be taken of, because whoever spoke them gave no token ids: by stage, role
-- and policy, with how many and the first of them. Only what is selected and would be pushed ($zero: smaller
-- advantages are none).
select c.stage, t.role, t.policy, count(distinct c.turn_id) as n_turns, count(distinct c.group_id) as n_groups,
    min(c.turn_id) as first_turn
from credited as c join turns as t on t.turn_id = c.turn_id
where c.selected and not c.trainable and abs(c.advantage) > $zero and t.completion_ids is null
group by c.stage, t.role, t.policy
order by c.stage, t.role, t.policy
