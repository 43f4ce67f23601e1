-- Goals of the committed descendants of each chosen node.
with chosen as (select unnest($nodes) as node_id)
select c.node_id as subject, n.node_id, n.goal
from nodes as n
join chosen as c
    on n.tree_id = split_part(c.node_id, '/', 1)
    and starts_with(n.node_id, c.node_id || '/')
    and not exists (
        select 1 from branches as b
        where b.tree_id = n.tree_id and not b.committed and length(b.node_id) > length(c.node_id)
            and starts_with(n.node_id || '/', b.node_id || '/')
    )
order by subject, n.node_id
