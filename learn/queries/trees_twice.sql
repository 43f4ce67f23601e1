-- A tree whose root is there more than once.
select node_id as tree_id, count(*) as n
from nodes
where parent_id is null
group by node_id
having count(*) > 1
order by node_id
limit 1
