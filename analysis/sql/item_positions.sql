-- Order effect: mean score and correlation with success by the criterion's place in its rubric.
select
    position, count(*) as n, round(avg(score), 9) as mean_score,
    case when stddev_pop(score) > 1e-9 and stddev_pop(y) > 1e-9 then round(corr(score, y), 9) end as phi
from audit_items
group by position
having count(*) >= $fewest
order by position
