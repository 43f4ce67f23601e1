-- Pairs of criteria that say the same: correlation of two criteria over nodes scored on both, on the first 20,000 nodes.
with
chosen as (
    select given from audit_located where valid order by given limit 20000
),
single as (
    select row, item.name as name, item.score as score
    from (
        select c.given as row, unnest(g.item_scores) as item
        from audit_given as g
        join chosen as c on c.given = g.rowid
    )
    where isfinite(item.score)
),
few as (
    select s.row, s.name, any_value(s.score) as score
    from single as s
    join item_names as n on n.name = s.name
    group by s.row, s.name
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
