-- The verdict on each node from all labels, audit labels included: never trained on.
select node_id, value, kind, use, source from verdict_scopes where scope = 'all'
