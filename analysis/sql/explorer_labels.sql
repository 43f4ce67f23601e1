-- Every label of one node, newest last.
select source, version, attempt, kind, use, valid, value, error, details, raw_text
from labels where node_id = $node_id order by source, version, attempt
