-- What reviving some trees needs of their agents' turns, in stored order; no token ids.
select tree_id, turn_id, node_id, kind, step, ok, text, observation, error, tool_calls
from turns
where kind = 'act' and tree_id in (select unnest($trees::varchar[]))
order by tree_id, node_id, turn_id
