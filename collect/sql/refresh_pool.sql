-- Forked delegations whose stored branches can be judged again: complete, of trees that infrastructure did not end.
-- $only = 'mixed': with a success and a failure among the verdicts. Under $work = 'scores' only those with a rubric (of
-- the trees, or of the refresh run $rubrics_of) that some branch has no score of $scorer, version $version, for.
with forked as (
    select b.epoch, b.tree_id, b.delegation_id, b.node_id, v.value >= 0.5 as success
    from branches as b
    join nodes as n on n.node_id = b.node_id
    join nodes as root on root.node_id = b.tree_id
    left join verdicts as v on v.node_id = b.node_id
    where b.complete and b.k > 1
        and b.epoch in (select unnest($epochs::int[]))
        and root.outcome <> 'infra_error'
        and root.purpose in (select unnest($purposes::varchar[]))
),
applied as (
    select rubric_id, delegation_id
    from rubrics
    where valid
        and case when $rubrics_of is null then phase = 'collect' and k = 0 else run_id = $rubrics_of end
),
unscored as (
    select distinct f.delegation_id
    from forked as f
    join applied as r on r.delegation_id = f.delegation_id
    anti join (select rubric_id, node_id from scores where scorer = $scorer and scorer_version = $version) as s
        on s.rubric_id = r.rubric_id and s.node_id = f.node_id
)
select epoch, tree_id, delegation_id, count(*) as n_branches
from forked
where $work = 'rubrics' or delegation_id in (from unscored)
group by epoch, tree_id, delegation_id
having $only = 'complete' or (bool_or(success) and bool_or(not success))
order by epoch, tree_id, delegation_id
