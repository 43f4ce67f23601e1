-- Of the branches of a delegation exactly one is committed, branch 0 unless it was selected among candidates; all start
-- from one snapshot; a complete group has all k branches, each with a node that started from that snapshot.
select delegation_id as id, 'branch 0 and only it must be committed' as fault
from fresh.branches where selected_by is null group by delegation_id
having count(*) filter (committed) <> 1 or count(*) filter (committed and branch = 0) <> 1
union all
select delegation_id, 'exactly one candidate must be committed, and all must say who selected it'
from fresh.branches group by delegation_id
having count(selected_by) > 0 and (count(*) filter (committed) <> 1 or count(selected_by) <> count(*))
union all
select delegation_id, 'its branches name ' || count(distinct snapshot_digest) || ' snapshots'
from fresh.branches group by delegation_id having count(distinct snapshot_digest) > 1
union all
select delegation_id, 'complete, with ' || count(node_id) || ' of k = ' || max(k) || ' branches'
from fresh.branches group by delegation_id
having bool_or(complete) and (count(node_id) <> max(k) or min(k) <> max(k) or not bool_and(complete))
union all
select delegation_id || ' branch ' || branch, 'not complete and no exclusion_reason'
from fresh.branches where not complete and exclusion_reason is null
union all
select b.delegation_id || ' branch ' || b.branch, 'its node started from another state than the snapshot'
from fresh.branches as b join known.nodes as n on n.node_id = b.node_id where n.start_digest <> b.snapshot_digest
order by 1, 2
