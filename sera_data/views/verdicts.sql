-- The verdict on each node from labels of use 'train': the only verdict that credit reads.
select node_id, value, kind, use, source from verdict_scopes where scope = 'train'
