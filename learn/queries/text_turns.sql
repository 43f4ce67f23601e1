-- Turns that are stored as text without token ids, agent by agent in the order of their steps, with what the opening of
-- a chat needs. Agents with any turn that has ids are left to those ids.
select
    t.node_id, t.turn_id, t.kind, t.base_turn, t.prompt_text, t.text, t.observation, t.finish_reason, n.goal, n.context
from turns as t
join nodes as n on n.node_id = t.node_id
where t.completion_ids is null
    and n.node_id not in (select node_id from turns where completion_ids is not null and kind = 'act')
order by t.node_id, t.kind, t.step, t.turn_id
