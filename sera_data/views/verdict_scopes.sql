-- The verdict on a node, once over labels of use 'train' (scope 'train') and once over all labels (scope 'all').
-- The newest valid program label wins; else the majority of the valid votes of people; else that of judges. A tie is
-- null. Versions compare by their numbers ('10' is newer than '9'), then as text. In scope 'all', labels of use 'audit'
-- of a kind stand in for the train labels of that kind: what training never saw is the better witness.
with
again as (select node_id from labels group by node_id having count(*) > 1),
lone as not materialized (  -- most nodes have one label: nothing to weigh
    select
        node_id, case when kind = 'program' or value in (0, 1) then value when value > 0.5 then 1 when value < 0.5 then 0 end
            as value,
        kind, use, source
    from labels
    anti join again using (node_id)
    where valid and value is not null
),
several as (select * from labels semi join again using (node_id)),
scoped as (
    select 'train' as scope, * from several where use = 'train' and valid and value is not null
    union all
    select 'all' as scope, * from several where valid and value is not null
    qualify use = 'audit' or not bool_or(use = 'audit') over (partition by node_id, kind)
),
programs as (
    select
        scope, node_id, value, kind, use, source,
        row_number() over (
            partition by scope, node_id
            order by
                try_cast(regexp_extract_all(version, '\d+') as bigint[]) desc nulls last,
                version desc, source, attempt desc
        ) as place
    from scoped
    where kind = 'program'
),
votes as (
    select
        scope, node_id, kind,
        case when avg(value) > 0.5 then 1.0 when avg(value) < 0.5 then 0.0 end::double as value,
        max(use) as use,
        string_agg(distinct source, '+' order by source) as source
    from scoped
    where kind <> 'program'
    group by scope, node_id, kind
),
candidates as (
    select scope, node_id, value, kind, use, source, 0 as preference from programs where place = 1
    union all
    select scope, node_id, value, kind, use, source, case kind when 'human' then 1 else 2 end from votes
)
select 'train' as scope, node_id, value, kind, use, source from lone where use = 'train'
union all
select 'all' as scope, node_id, value, kind, use, source from lone
union all
select scope, node_id, value, kind, use, source
from candidates
qualify row_number() over (partition by scope, node_id order by preference) = 1
