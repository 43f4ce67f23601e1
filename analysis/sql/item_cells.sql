-- Sums per criterion (key of item_names) and block: scores in units of 1e-6, successes, their products, passes.
create or replace temp table item_cells as
with
located as (
    select n.key, i.block, (i.score * 1e6)::bigint as s, i.y::int as y, (i.score >= 0.5)::int as passed
    from audit_items as i
    join item_names as n using (name)
)
select
    'item' as slice, 'all' as level, block, key, count(*) as n, sum(y) as y, sum(s) as s, sum(s * s) as ss,
    sum(s * y) as sy, sum(passed) as passed, sum(passed * y) as passed_y
from located
group by block, key
