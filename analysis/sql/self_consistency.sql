-- Does a scorer repeat itself? Spread of valid scores that one scorer and version gave one node under one rubric.
--   repeat_sd = square root of the mean variance within such nodes (degrees of freedom n - 1)
with
again as (
    select distinct rubric_id, node_id, scorer, scorer_version from scores where attempt > 0
),
repeated as (
    select any_value(task_id) as task_id, var_samp(final_score) as variance
    from scores
    semi join again using (rubric_id, node_id, scorer, scorer_version)
    where valid and isfinite(final_score)
    group by rubric_id, node_id, scorer, scorer_version
    having count(*) > 1
)
select round(sqrt(avg(variance)), 9) as repeat_sd, count(*) as n, count(distinct task_id) as tasks from repeated
