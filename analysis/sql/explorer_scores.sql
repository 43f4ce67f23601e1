-- Every score of one delegation, invalid ones included.
select * from scores where delegation_id = $delegation_id
order by rubric_id, scorer, scorer_version, attempt, node_id
