-- State changes by the accepted calls of each node and its committed descendants, in the order of their stamps.
with
chosen as (select unnest($nodes) as node_id),
calls as (
    select c.node_id, t.node_id as actor, t.order_stamp, t.step, unnest(t.tool_calls) as call,
        generate_subscripts(t.tool_calls, 1) as place
    from turns as t
    join chosen as c
        on t.tree_id = split_part(c.node_id, '/', 1)
        and (
            t.node_id = c.node_id
            or starts_with(t.node_id, c.node_id || '/')
            and regexp_full_match(substr(t.node_id, length(c.node_id) + 1), '(/t\d+d\d+b0)+')
        )
    where t.kind = 'act'
)
select node_id, call.delta as delta
from calls
where call.ok and call.delta is not null
order by node_id, coalesce(call.order_stamp, order_stamp), actor, step, place
