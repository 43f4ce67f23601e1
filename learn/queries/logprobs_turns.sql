-- What the owed turns of trees $first to $last need: of their nodes every act turn up to the last owed one, so that
-- prompts can be rebuilt through base_turn; other turns (rubrics, scores) are keyframes and stand alone. The columns of
-- `owed` are null for turns that are only read.
select
    t.node_id,
    t.kind,
    t.turn_id,
    t.base_turn,
    t.prompt_ids,
    t.completion_ids,
    t.policy_version,
    o.tree_id,
    o.task_id,
    o.role,
    o.policy,
    o.temperature,
    o.weights_sha256
from turns as t
left join owed as o on o.turn_id = t.turn_id
left join (select node_id, max(turn_id) as last from owed where kind = 'act' group by node_id) as l
    on l.node_id = t.node_id
where t.tree_id between $first and $last
    and (o.turn_id is not null or (t.kind = 'act' and t.turn_id <= l.last))
order by t.node_id, t.kind, t.turn_id
