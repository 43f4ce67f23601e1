-- Pairs of branches of one delegation: one whose verdict is success, one whose verdict is failure, from the same
-- state. At most $per_group pairs a delegation, chosen by a hash of their ids. margin: score of the success - score of
-- the failure, null when they were not scored under one rubric.
select
    a.delegation_id, a.task_id, a.tree_id, a.depth, a.node_id as win_node, b.node_id as lose_node, p.gap as margin
from branches as a
join branches as b on b.delegation_id = a.delegation_id
join verdicts as va on va.node_id = a.node_id and va.value = 1
join verdicts as vb on vb.node_id = b.node_id and vb.value = 0
join nodes as na on na.node_id = a.node_id and na.outcome <> 'infra_error'
join nodes as nb on nb.node_id = b.node_id and nb.outcome <> 'infra_error'
left join (select win_node, lose_node, avg(gap) as gap from pairs group by all) as p
    on p.win_node = a.node_id and p.lose_node = b.node_id
qualify row_number() over (
    partition by a.delegation_id order by md5(a.node_id || '/' || b.node_id), a.branch, b.branch
) <= $per_group
order by a.delegation_id, win_node, lose_node
