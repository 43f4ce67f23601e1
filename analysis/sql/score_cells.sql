-- Counts per slice, block and score level: n scored nodes, `a` of them successful, `s` the sum of their scores in units of
-- 1e-9 (whole numbers add up to the same digits in any order). Everything about levels starts here.
-- Parts of the data (depth, length and so on) are counted in at most $coarse_blocks blocks, the whole in all of them.
create or replace temp table score_cells as
with
located as (
    select
        valid, depth, difficulty, epoch, world, length_tenth, block, block % $coarse_blocks as coarse_block, key, exact,
        (score * 1e9)::bigint as nano, y::int as y
    from audit_located
),
valid_only as (
    select
        grouping_id(depth, difficulty, epoch, world, length_tenth) as part,
        depth, difficulty, epoch, world, length_tenth, coalesce(block, coarse_block) as block, key,
        count(*) as n, sum(y) as a, case when bool_and(exact) then 0 else sum(nano) end as s
    from located
    where valid
    group by grouping sets (
        (block, key), (coarse_block, key, depth), (coarse_block, key, difficulty), (coarse_block, key, epoch),
        (coarse_block, key, world), (coarse_block, key, length_tenth)
    )
)
select
    case part when 31 then 'all' when 15 then 'depth' when 23 then 'difficulty' when 27 then 'epoch' when 29 then 'world'
    else 'length' end as slice,
    case part when 31 then 'all' when 15 then depth::varchar when 23 then difficulty when 27 then epoch::varchar
    when 29 then world else length_tenth::varchar end as level,
    block, key, n, a, s
from valid_only
where part <> 29 or (select count(distinct world) from audit_groups) > 1
union all
select 'worst', 'all', block, key, count(*), sum(y), case when bool_and(exact) then 0 else sum(nano) end
from located
where not (select bool_and(valid) from audit_scored)
group by block, key
