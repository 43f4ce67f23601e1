-- All turns of one tree, in stored order.
select * from turns where tree_id = $tree order by node_id, turn_id
