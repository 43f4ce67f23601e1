-- Every metric of every slice: the estimate (replicate 0), the 95 % range of the replicates, and their spread.
-- base: the estimate on the replicates' own score levels (rep -1), which is `value` unless scores are binned; ranges are
-- moved by the difference. shift = mean of the replicates - base: errors such as ECE grow when noise is added.
with
measured as (
    select
        slice, level, metric,
        any_value(value) filter (rep = 0) as value,
        coalesce(any_value(value) filter (rep = -1), any_value(value) filter (rep = 0)) as base,
        quantile_cont(value, [0.025, 0.975]) filter (rep > 0) as ends,
        stddev_samp(value) filter (rep > 0) as spread,
        avg(value) filter (rep > 0) as mean
    from audit_replicates
    group by slice, level, metric
)
select
    slice, level, metric, value, ends[1] + value - base as low, ends[2] + value - base as high, spread, mean - base as shift
from measured
where value is not null
order by slice, level, metric
