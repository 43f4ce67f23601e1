-- Distribution of score gaps (successful branch - failed branch) in steps of 0.1.
select
    round(gap * 10) / 10 as gap,
    case
        when gap < -1e-9 then 'wrong order'
        when gap <= 1e-9 then 'tie'
        when gap < $margin - 1e-9 then 'right, below margin'
        else 'right, margin kept'
    end as kind,
    count(*) as n
from audit_pairs
where valid
group by all
order by all
