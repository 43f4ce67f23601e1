-- Pairs of criteria that say the same: correlation of two criteria over nodes scored on both, on the first 20,000 nodes.
with
chosen as (
    select row from audit_items group by row order by row limit 20000
),
few as (
    select i.row, i.name, any_value(i.score) as score
    from audit_items as i
    join chosen using (row)
    join item_names as n on n.name = i.name
    group by i.row, i.name
)
select
    a.name, b.name as other, count(*) as n,
    case when stddev_pop(a.score) > 1e-9 and stddev_pop(b.score) > 1e-9 then round(corr(a.score, b.score), 9) end as phi
from few as a
join few as b on b.row = a.row and b.name > a.name
group by a.name, b.name
having n >= $fewest and abs(phi) >= 0.5
order by abs(phi) desc, a.name, b.name
limit 10
