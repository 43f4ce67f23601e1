-- Every metric of every slice: the estimate (replicate 0) and the 95 % range of the replicates.
-- `shift` = mean of the replicates - estimate; errors such as ECE grow when noise is added, so their range is moved back.
with long as (
    select * from (unpivot calibration_metrics on columns(* exclude (slice, level, rep)) into name metric value value)
    union all by name
    select * from (unpivot calibration_bin_metrics on columns(* exclude (slice, level, rep)) into name metric value value)
    union all by name
    select * from (unpivot brier_metrics on columns(* exclude (slice, level, rep)) into name metric value value)
    union all by name
    select * from (unpivot rank_metrics on columns(* exclude (slice, level, rep)) into name metric value value)
    union all by name
    select * from (unpivot pair_metrics on columns(* exclude (slice, level, rep)) into name metric value value)
)
select
    slice, level, metric,
    any_value(value) filter (rep = 0) as value,
    quantile_cont(value, 0.025) filter (rep > 0) as low,
    quantile_cont(value, 0.975) filter (rep > 0) as high,
    avg(value) filter (rep > 0) - any_value(value) filter (rep = 0) as shift
from long
group by slice, level, metric
having any_value(value) filter (rep = 0) is not null
order by slice, level, metric
