-- The first valid score that one scorer gave each node, whenever it did.
select node_id, arg_min(final_score, attempt) as score
from scores where valid and scorer = $scorer and scorer_version = $version
group by node_id
