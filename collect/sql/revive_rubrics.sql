-- All rubrics of one tree, in stored order.
select * from rubrics where tree_id = $tree order by delegation_id, k, attempt
