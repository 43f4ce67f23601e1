-- Reliability table on the replicates' equal-mass bins: for scorers with many distinct scores.
with bin as (
    select r.rep, b.bin, sum(n) as n, sum(a) as a, sum(n * score) / sum(n) as score
    from score_reps as r
    join score_bins as b on b.slice = r.slice and b.level = r.level and b.key = r.key and not b.exact
    where r.slice = 'all' and r.rep <> 0
    group by r.rep, b.bin
)
select
    any_value(score) filter (rep = -1) as score,
    any_value(n) filter (rep = -1)::bigint as n,
    any_value(a / n) filter (rep = -1) as success_rate,
    quantile_cont(a / n, 0.025) filter (rep > 0) as low,
    quantile_cont(a / n, 0.975) filter (rep > 0) as high
from bin
group by bin
order by score
