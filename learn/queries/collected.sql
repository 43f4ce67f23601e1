-- How the store was collected, as far as methods ask: the deepest agent, the smallest fork, who wrote and scored.
-- Who writes or scores is the acting policy where name, version and weights are those that acted in the same shard:
-- a policy that was trained elsewhere keeps the name of the one it comes from.
with weights as (
    select shard_id, served.role as role, served.weights_sha256 as sha256
    from (select shard_id, unnest(policies) as served from runs)
),

acting as (
    select distinct t.shard_id, t.policy, t.policy_version, w.sha256
    from turns t
    left join weights w on w.shard_id = t.shard_id and w.role = 'act'
    where t.kind = 'act'
),

served as (
    select distinct r.shard_id, 'writer' as role, r.writer as policy, r.writer_version as policy_version, w.sha256
    from rubrics r
    left join weights w on w.shard_id = r.shard_id and w.role = 'writer'
    where r.phase = 'collect'
    union all
    select distinct s.shard_id, 'scorer', s.scorer, s.scorer_version, w.sha256
    from scores s
    left join weights w on w.shard_id = s.shard_id and w.role = 'scorer'
    where s.phase = 'collect'
),

parties as (
    select
        s.role,
        exists (
            select 1
            from acting a
            where a.shard_id = s.shard_id and a.policy = s.policy and a.policy_version = s.policy_version
                and a.sha256 is not distinct from s.sha256
        ) as acts,
        case
            when s.policy in (select policy from acting) then concat(s.policy, ' of version ', s.policy_version)
            else s.policy
        end as name,
        s.policy_version
    from served s
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
    (select list(distinct name order by name) from parties where role = 'writer' and acts) as own_writers,
    (select list(distinct name order by name) from parties where role = 'writer' and not acts) as other_writers,
    (select list(distinct name order by name) from parties where role = 'scorer' and acts) as own_scorers,
    (select list(distinct name order by name) from parties where role = 'scorer' and not acts) as other_scorers,
    (select max(policy_version) from parties where role = 'scorer' and acts) as live_scorer_version
