-- For every factual node the factual leaves of its subtree. A leaf has no factual child; it is its own leaf, so a root
-- that never delegates is too. An off-path node is nowhere in here.
with recursive
inner_nodes as (select distinct parent_id as node_id from factual where parent_id is not null),
reached as (
    select tree_id, node_id, parent_id, node_id as leaf_id
    from factual
    where node_id not in (select node_id from inner_nodes)
    union all
    select f.tree_id, f.node_id, f.parent_id, r.leaf_id
    from reached as r
    join factual as f on f.node_id = r.parent_id
)
select tree_id, node_id, leaf_id from reached
