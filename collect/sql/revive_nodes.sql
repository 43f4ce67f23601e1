-- All nodes of one tree, in stored order.
select * from nodes where tree_id = $tree order by node_id
