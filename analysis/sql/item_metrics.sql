-- What each criterion tells about success, per replicate.
--   mean_score; phi = correlation of its score with success; pass_rate = share of scores >= 0.5
--   lift = success rate where it passes - where it does not; bits = mutual information of pass and success
--   saturated: it passes in more than 95 % or less than 5 % of nodes, or its score never varies
create or replace temp table item_metrics as
with
total as (
    select
        key, rep,
        sum(value) filter (name = 'n') as n, sum(value) filter (name = 'y') as y,
        sum(value) filter (name = 's') / 1e6 as s, sum(value) filter (name = 'ss') / 1e12 as ss,
        sum(value) filter (name = 'sy') / 1e6 as sy, sum(value) filter (name = 'passed') as k,
        sum(value) filter (name = 'passed_y') as ky
    from boot_sums
    where family = 'item'
    group by key, rep
),
cell as (
    select key, rep, unnest([[ky, k, y], [k - ky, k, n - y], [y - ky, n - k, y], [n - k - y + ky, n - k, n - y]]) as c, n
    from total
    where n > 0
),
information as (
    select key, rep, sum(case when c[1] > 0 then c[1] / n * log2(c[1] * n / (c[2] * c[3])) else 0 end) as bits
    from cell
    group by key, rep
)
select
    t.key, t.rep, s / n as mean_score, k / n as pass_rate,
    case when n * ss - s * s > 1e-9 * n * n then (n * sy - s * y) / nullif(sqrt((n * ss - s * s) * (n * y - y * y)), 0) end
        as phi,
    ky / nullif(k, 0) - (y - ky) / nullif(n - k, 0) as lift, i.bits,
    (k / n > 0.95 or k / n < 0.05 or n * ss - s * s <= 1e-9 * n * n)::int::double as saturated
from total as t
join information as i using (key, rep)
