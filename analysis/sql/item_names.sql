-- The criteria that the audit shows one by one: the $most_items names with the most scores, at least $fewest each.
create or replace temp table item_names as
select name, sum(n)::bigint as n, (row_number() over (order by sum(n) desc, name))::int as key
from audit_item_sums
group by name
having sum(n) >= $fewest
qualify key <= $most_items
