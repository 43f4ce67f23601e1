-- The listed row of one tree.
select * from listed_trees where tree_id = $tree_id
