-- How the store was collected, as far as methods ask: the deepest agent, the smallest fork, who wrote and scored.
with acting as (
    select distinct policy, policy_version from turns where kind = 'act'
)

select
    (select max(depth) from nodes where purpose in ('execution', 'delegation', 'rubric')) as deepest,
    (select min(k) from branches where k > 1 and complete) as smallest_fork,
    (
        select count(*)
        from nodes n
        where n.parent_id is not null and n.on_path and list_contains(string_split($purposes, ','), n.purpose)
    ) as n_children,
    (
        select count(*)
        from rubrics r
        join nodes n on n.node_id = r.node_id
        where r.phase = 'collect' and list_contains(string_split($purposes, ','), n.purpose)
    ) as n_rubrics,
    (select min(temperature) from turns where kind = 'score') as coldest_score,
    (select list(distinct policy order by policy) from acting) as actors,
    (select list(distinct writer order by writer) from rubrics where phase = 'collect') as writers,
    (select list(distinct scorer order by scorer) from scores where phase = 'collect') as scorers,
    (
        select max(s.scorer_version)
        from scores s
        join acting a on a.policy = s.scorer and a.policy_version = s.scorer_version
        where s.phase = 'collect'
    ) as live_scorer_version
