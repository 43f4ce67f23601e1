-- The act turns of one unit's nodes: reply, answer, and whether the agent called finish in it.
select
    node_id,
    text as reply,
    observation as answer,
    coalesce(list_bool_or([c.tool = 'finish' and c.ok for c in tool_calls]), false) as finish
from turns
where kind = 'act' and node_id in (select unnest($nodes))
order by node_id, step
