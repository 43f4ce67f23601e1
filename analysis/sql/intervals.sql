-- Every metric of every slice: the estimate (replicate 0), the 95 % range of the replicates, and their spread.
-- base: the estimate on the replicates' own score levels (rep -1), which is `value` unless scores are binned; ranges are
-- moved by the difference. shift = mean of the replicates - base: errors such as ECE grow when noise is added.
with long as (
    from audit_replicates
)
select
    slice, level, metric,
    any_value(value) filter (rep = 0) as value,
    quantile_cont(value, 0.025) filter (rep > 0) + any_value(value) filter (rep = 0)
        - coalesce(any_value(value) filter (rep = -1), any_value(value) filter (rep = 0)) as low,
    quantile_cont(value, 0.975) filter (rep > 0) + any_value(value) filter (rep = 0)
        - coalesce(any_value(value) filter (rep = -1), any_value(value) filter (rep = 0)) as high,
    stddev_samp(value) filter (rep > 0) as spread,
    avg(value) filter (rep > 0)
        - coalesce(any_value(value) filter (rep = -1), any_value(value) filter (rep = 0)) as shift
from long
group by slice, level, metric
having any_value(value) filter (rep = 0) is not null
order by slice, level, metric
