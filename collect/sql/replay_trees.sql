-- Trees of a store that hold a node to replay, in stored order; $node null = all trees.
select distinct tree_id
from nodes
where $node is null or node_id = $node
order by tree_id
