-- Every rubric of one delegation: the first of the collect phase first, then later attempts and refreshed ones.
select * from rubrics where delegation_id = $delegation_id
order by phase, k, attempt, writer, writer_version, rubric_id
