-- All rubrics of some trees, in stored order.
select * from rubrics where tree_id in (select unnest($trees::varchar[])) order by tree_id, delegation_id, k, attempt
