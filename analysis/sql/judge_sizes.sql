-- How much each rater's agreement rests on, per slice: nodes seen, nodes with both verdicts, repeated nodes, votes, and
-- the tasks (clusters) behind each.
select
    kind, source, version, slice, level,
    sum(nodes)::bigint as nodes,
    count(distinct task_id) filter (nodes > 0) as node_tasks,
    sum(repeats)::bigint as repeats,
    count(distinct task_id) filter (repeats > 0) as repeat_tasks,
    sum(votes)::bigint as votes,
    sum(invalid)::bigint as invalid,
    count(distinct task_id) as vote_tasks
from judge_cells
group by kind, source, version, slice, level
order by
    kind, source, version,
    list_position(['all', 'depth', 'difficulty', 'epoch'], slice),
    try_cast(level as int), list_position(['easy', 'medium', 'hard', 'extreme'], level), level
