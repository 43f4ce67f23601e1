-- One node of the open tree, whole.
select n.*, v.value as verdict, v.source as verdict_source
from nodes as n left join verdicts as v using (node_id)
where n.node_id = $node_id
