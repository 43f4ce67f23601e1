-- Every group of the store by the stage it was dealt to: its trees, its usable roots, the policy versions of its
-- factual nodes (the members of a baseline).
select
    n.purpose as stage,
    concat(n.epoch, '/', n.task_id) as group_id,
    count(distinct n.tree_id) filter (where n.parent_id is null) as n_trees,
    count(distinct n.tree_id) filter (
        where n.parent_id is null and n.outcome <> 'infra_error' and v.value is not null
    ) as n_roots,
    min(n.policy_version_min) filter (where n.outcome <> 'infra_error') as version_min,
    max(n.policy_version_max) filter (where n.outcome <> 'infra_error') as version_max
from factual n
left join verdicts v on v.node_id = n.node_id
where n.purpose in ('execution', 'delegation', 'rubric')
group by n.purpose, n.epoch, n.task_id
order by stage, group_id
