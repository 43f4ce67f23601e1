-- Nodes whose own branch and every ancestor's branch is committed: what really happened in the tree.
select * from nodes where on_path
