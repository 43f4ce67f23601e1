-- All nodes of some trees, in stored order.
select * from nodes where tree_id in (select unnest($trees::varchar[])) order by tree_id, node_id
