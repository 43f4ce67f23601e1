-- Reliability table: success rate at each distinct score, with the 95 % range over task-clustered replicates.
select
    any_value(score) as score,
    any_value(n) filter (rep = 0)::bigint as n,
    any_value(a / n) filter (rep = 0) as success_rate,
    quantile_cont(a / n, 0.025) filter (rep > 0) as low,
    quantile_cont(a / n, 0.975) filter (rep > 0) as high
from score_reps
where slice = 'all' and rep >= 0
group by key
order by score
