-- All branches of some trees, in stored order.
select * from branches where tree_id in (select unnest($trees::varchar[])) order by tree_id, delegation_id, branch
