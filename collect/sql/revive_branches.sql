-- All branches of one tree, in stored order.
select * from branches where tree_id = $tree order by delegation_id, branch
