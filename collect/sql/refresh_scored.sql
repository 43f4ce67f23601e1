-- What one scorer has scored in some trees, by tree.
select tree_id, rubric_id, node_id
from scores
where scorer = $scorer and scorer_version = $version and tree_id in (select unnest($trees::varchar[]))
