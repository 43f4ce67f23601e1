-- One row per collect epoch of a loop: success of its trees, and what was spent up to its end: labels that the method
-- reads, sampled tokens, agent turns (environment steps), optimizer updates done before it was collected.
-- $purposes and $nodes say which labels the method reads: 'path' nodes on the path, 'all' nodes, 'roots', or 'branches'
-- of forked delegations, of the groups of a purpose.
with
reads as (select unnest($purposes::varchar[]) as purpose, unnest($nodes::varchar[]) as which),
labelled as (select distinct node_id from labels where "use" = 'train' and valid),
read as (
    select n.epoch, count(distinct n.node_id) as labels
    from nodes as n
    join reads as r on r.purpose = n.purpose
    left join branches as b on b.delegation_id = n.delegation_id and b.branch = n.branch
    where n.node_id in (select node_id from labelled)
        and case r.which
            when 'all' then true
            when 'path' then n.on_path
            when 'roots' then n.parent_id is null
            else coalesce(b.k, 1) > 1
        end
    group by n.epoch
),
sampled as (
    select epoch, coalesce(sum(len(completion_ids)), 0) as tokens, count(*) filter (kind = 'act') as turns
    from turns group by epoch
),
played as (
    select epoch, count(*) as trees, avg(success) as success from trees where purpose <> 'eval' group by epoch
),
trained as (select epoch, count(*) filter (loss is not null) as updates from updates group by epoch)
select
    p.epoch,
    p.trees,
    p.success,
    (sum(coalesce(r.labels, 0)) over whole)::bigint as labels,
    (sum(coalesce(s.tokens, 0)) over whole)::bigint as tokens,
    (sum(coalesce(s.turns, 0)) over whole)::bigint as turns,
    coalesce(sum(u.updates) over before, 0)::bigint as updates_before,
    (sum(coalesce(u.updates, 0)) over whole)::bigint as updates
from played as p
left join read as r on r.epoch = p.epoch
left join sampled as s on s.epoch = p.epoch
left join trained as u on u.epoch = p.epoch
window
    whole as (order by p.epoch rows unbounded preceding),
    before as (order by p.epoch rows between unbounded preceding and 1 preceding)
order by p.epoch
