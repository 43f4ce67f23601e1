-- Counts per slice and distinct score, when there are too many distinct scores for the replicates; empty otherwise.
create or replace temp table exact_cells as
with
located as (
    select r.*, l.place
    from audit_located as r
    join (select score, dense_rank() over (order by score) - 1 as place, exact from score_levels) as l using (score)
    where not l.exact
),
valid_only as (
    select
        grouping_id(depth, difficulty, epoch, world, length_tenth) as part,
        depth, difficulty, epoch, world, length_tenth, place, score, count(*) as n, sum(y) as a
    from located
    where valid
    group by grouping sets (
        (place, score), (place, score, depth), (place, score, difficulty), (place, score, epoch),
        (place, score, world), (place, score, length_tenth)
    )
)
select
    case part when 31 then 'all' when 15 then 'depth' when 23 then 'difficulty' when 27 then 'epoch' when 29 then 'world'
    else 'length' end as slice,
    case part when 31 then 'all' when 15 then depth::varchar when 23 then difficulty when 27 then epoch::varchar
    when 29 then world else length_tenth::varchar end as level,
    place::int as key, score, n::double as n, a::double as a
from valid_only
where part <> 29 or (select count(distinct world) from audit_groups) > 1
union all
select 'worst', 'all', place::int, score, count(*)::double, sum(y)::double
from located
where not (select bool_and(valid) from audit_scored)
group by place, score
