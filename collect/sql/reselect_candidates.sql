-- The candidates of all complete delegations with several: the stored choice, the score that it was made by, the judge's
-- and the program's verdicts, and how the tree ended.
with
scored as (
    select s.node_id, arg_min(s.final_score, s.attempt) as score
    from scores as s
    where s.valid and s.phase = 'collect'
    group by s.node_id
),
judged as (select node_id, avg(value) as verdict from labels where valid and kind = 'judge' group by node_id),
checked as (select node_id, avg(value) as verdict from labels where valid and kind = 'program' group by node_id)
select
    b.run_id, b.epoch, b.tree_id, b.task_id, b.delegation_id, b.branch, b.node_id, b.depth, b.committed,
    coalesce(b.selected_by, 'first') as selected_by, b.selection_reason, p.on_path, r.sample, coalesce(r.policy_version_min, 0) as policy_version,
    s.score, j.verdict as judged, coalesce(c.verdict, v.value) as success, tv.value as tree_success
from branches as b
join nodes as p on p.node_id = b.parent_id
join nodes as r on r.node_id = b.tree_id
left join scored as s on s.node_id = b.node_id
left join judged as j on j.node_id = b.node_id
left join checked as c on c.node_id = b.node_id
left join verdicts as v on v.node_id = b.node_id
left join verdicts as tv on tv.node_id = b.tree_id
where b.complete and b.k > 1 and ($run is null or b.run_id = $run)
order by b.epoch, b.tree_id, b.delegation_id, b.branch
