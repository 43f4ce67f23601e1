-- The act turns of each chosen node and of its committed descendants.
with chosen as (select unnest($nodes) as node_id)
select
    c.node_id as subject, t.node_id, t.step, t.text, t.observation, t.error, t.tool_calls, t.order_stamp
from turns as t
join chosen as c
    on t.tree_id = split_part(c.node_id, '/', 1)
    and (
        t.node_id = c.node_id
        or starts_with(t.node_id, c.node_id || '/')
        and not exists (
            select 1 from branches as b
            where b.tree_id = t.tree_id and not b.committed and length(b.node_id) > length(c.node_id)
                and starts_with(t.node_id || '/', b.node_id || '/')
        )
    )
where t.kind = 'act'
order by subject, t.node_id, t.step
