-- Distribution of scores in steps of 0.1 (scores are on [0, 1]), successes and failures apart; share within each.
with bar as (
    select least(greatest(round(score * 10), 0), 10) / 10 as score, y >= 0.5 as success, count(*) as n
    from audit_scored
    where valid
    group by all
)
select score, success, n, n / sum(n) over (partition by success) as share
from bar
order by score, success
