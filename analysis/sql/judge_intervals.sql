-- Every agreement metric: the estimate (replicate 0) and the 95 % range of the replicates over tasks.
with long as (
    unpivot judge_metrics on columns(* exclude (kind, source, version, slice, level, rep)) into name metric value value
)
select
    kind, source, version, slice, level, metric,
    any_value(value) filter (rep = 0) as value,
    quantile_cont(value, 0.025) filter (rep > 0) as low,
    quantile_cont(value, 0.975) filter (rep > 0) as high,
    stddev_samp(value) filter (rep > 0) as spread
from long
group by kind, source, version, slice, level, metric
having any_value(value) filter (rep = 0) is not null
