-- The verdict on each node from all labels, where audit labels of a kind stand in for its train labels: never trained on.
select node_id, value, kind, use, source from verdict_scopes where scope = 'all'
