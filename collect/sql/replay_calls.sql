-- World calls of the act turns of some trees, with the stamp that orders them; launches and finish are no calls.
with
calls as (
    select tree_id, node_id, turn_id, order_stamp, unnest(tool_calls) as call, generate_subscripts(tool_calls, 1) as place
    from turns
    where kind = 'act' and list_contains($trees, tree_id)
)
select tree_id, node_id, turn_id, place, call.tool as tool, call.arguments as arguments, call.ok as ok,
    call.result as result, call.delta as delta, coalesce(call.order_stamp, order_stamp) as stamp
from calls
where call.tool not in ('delegate', 'finish')
order by tree_id, stamp, place
