-- How much each slice rests on: scored nodes, pairs, groups, and the blocks (clusters) behind them.
select
    slice, level,
    s.n as scores, s.tasks as score_tasks,
    coalesce(p.pairs, 0)::bigint as pairs, coalesce(p.groups, 0)::bigint as groups, coalesce(p.tasks, 0) as pair_tasks
from (select slice, level, sum(n)::bigint as n, count(distinct block) as tasks from score_cells group by all) s
left join (
    select slice, level, sum(pairs) as pairs, sum(groups) as groups, count(distinct block) as tasks
    from pair_cells group by all
) p using (slice, level)
order by slice, try_cast(level as int), list_position(['easy', 'medium', 'hard', 'extreme'], level), level
