-- The verdict on a node, once over labels of use 'train' (scope 'train') and once over all labels (scope 'all').
-- The newest valid program label wins; else the majority of the valid votes of people; else that of judges. A tie is
-- null. Versions compare by their numbers ('10' is newer than '9'), then as text.
with
scoped as (
    select 'train' as scope, * from labels where use = 'train' and valid and value is not null
    union all
    select 'all' as scope, * from labels where valid and value is not null
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
select scope, node_id, value, kind, use, source
from candidates
qualify row_number() over (partition by scope, node_id order by preference) = 1
