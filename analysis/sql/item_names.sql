-- The criteria that the audit shows one by one: the $most_items names with the most scores, at least $fewest each.
create or replace temp table item_names as
select name, count(*) as n, (row_number() over (order by count(*) desc, name))::int as key
from audit_items
group by name
having count(*) >= $fewest
qualify key <= $most_items
