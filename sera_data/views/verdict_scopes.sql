-- The verdict on a node, once over labels of use 'train' (scope 'train') and once over all labels (scope 'all').
-- The newest valid program label wins; else the majority of the valid votes of people; else that of judges. A tie is
-- null. Versions compare by their numbers ('10' is newer than '9'), then as text.
with
counted as (
    select
        node_id, count(*) as n, any_value(value) as value, any_value(kind) as kind, any_value(use) as use,
        any_value(source) as source, any_value(valid) as valid
    from labels
    group by node_id
),
lone as (  -- most nodes have one label: nothing to weigh
    select
        node_id, case when kind = 'program' or value in (0, 1) then value when value > 0.5 then 1 when value < 0.5 then 0 end
            as value,
        kind, use, source
    from counted
    where n = 1 and valid and value is not null
),
several as (select * from labels where node_id in (select node_id from counted where n > 1)),
scoped as (
    select 'train' as scope, * from several where use = 'train' and valid and value is not null
    union all
    select 'all' as scope, * from several where valid and value is not null
),
programs as (
    select
        scope, node_id, value, kind, use, source,
        row_number() over (
            partition by scope, node_id
            order by
                try_cast(regexp_extract_all(version, '\d+') as bigint[]) desc nulls last,
                version desc, use desc, source, attempt desc
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
