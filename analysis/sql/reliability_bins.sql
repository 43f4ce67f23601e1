-- Reliability table on equal-mass bins: for scorers with many distinct scores.
with bin as (
    select rep, bin, sum(n) as n, sum(a) as a, sum(n * score) / sum(n) as score
    from score_reps
    join score_bins using (slice, level, score)
    where slice = 'all'
    group by rep, bin
)
select
    any_value(score) filter (rep = 0) as score,
    any_value(n) filter (rep = 0)::bigint as n,
    any_value(a / n) filter (rep = 0) as success_rate,
    quantile_cont(a / n, 0.025) filter (rep > 0) as low,
    quantile_cont(a / n, 0.975) filter (rep > 0) as high
from bin
group by bin
order by score
