-- Ratios of the completion tokens of one node's turns, from a file of one's own.
select turn_id, ratios from ratios where turn_id in (select turn_id from turns where node_id = $node_id)
