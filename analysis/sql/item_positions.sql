-- Order effect: mean score and correlation with success by the criterion's place in its rubric.
with place as (
    select
        position, sum(n)::double as n, sum(y)::double as y, sum(s) / 1e6 as s, sum(ss) / 1e12 as ss, sum(sy) / 1e6 as sy
    from audit_item_sums
    group by position
)
select
    position, n::bigint as n, round(s / n, 9) as mean_score,
    case when n * ss - s * s > 1e-9 * n * n and n * y - y * y > 0
        then round((n * sy - s * y) / sqrt((n * ss - s * s) * (n * y - y * y)), 9) end as phi
from place
where n >= $fewest
order by position
