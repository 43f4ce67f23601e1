-- How much each slice rests on: scored nodes, pairs, groups, and the tasks behind them.
with
unit as (
    select task, depth, difficulty, epoch, world, length_tenth from audit_located where valid group by all
),
parts as (
    select
        grouping_id(depth, difficulty, epoch, world, length_tenth) as part, depth, difficulty, epoch, world, length_tenth,
        count(distinct task) as tasks
    from unit
    group by grouping sets ((), (depth), (difficulty), (epoch), (world), (length_tenth))
),
score_tasks as (
    select
        case part when 31 then 'all' when 15 then 'depth' when 23 then 'difficulty' when 27 then 'epoch'
        when 29 then 'world' else 'length' end as slice,
        case part when 31 then 'all' when 15 then depth::varchar when 23 then difficulty when 27 then epoch::varchar
        when 29 then world else length_tenth::varchar end as level,
        tasks
    from parts
    union all
    select 'worst', 'all', count(distinct task) from audit_located
)
select
    slice, level,
    s.n as scores, t.tasks as score_tasks,
    coalesce(p.pairs, 0)::bigint as pairs, coalesce(p.groups, 0)::bigint as groups,
    coalesce(p.tasks, 0)::bigint as pair_tasks
from (select slice, level, sum(n)::bigint as n from score_cells group by all) as s
join score_tasks as t using (slice, level)
left join (
    select slice, level, sum(pairs) as pairs, sum(groups) as groups, sum(tasks) as tasks from pair_cells group by all
) as p using (slice, level)
order by slice, try_cast(level as int), list_position(['easy', 'medium', 'hard', 'extreme'], level), level
