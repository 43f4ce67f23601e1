-- Sums per criterion (key of item_names) and block, wherever in its rubric the criterion stands.
create or replace temp table item_cells as
select
    'item' as slice, 'all' as level, i.block, n.key, sum(i.n) as n, sum(i.y) as y, sum(i.s) as s, sum(i.ss) as ss,
    sum(i.sy) as sy, sum(i.passed) as passed, sum(i.passed_y) as passed_y
from audit_item_sums as i
join item_names as n on n.name = i.name
group by i.block, n.key
