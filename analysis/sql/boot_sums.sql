-- The same with names: one row per number and replicate, in an order that fixes that of all later sums.
create or replace temp view boot_sums as
select l.family, l.slice, l.level, l.key, l.name, p.rep, p.value
from boot_products as p
join (select id, family, slice, level, key, name from boot_lists) as l on l.id = p.id
