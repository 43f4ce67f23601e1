-- How much each rater's agreement rests on, per slice: nodes seen, nodes with both verdicts, repeated nodes, votes, and
-- the tasks behind each.
select
    kind, source, version, slice, level,
    sum(nodes)::bigint as nodes,
    sum(node_tasks)::bigint as node_tasks,
    sum(repeats)::bigint as repeats,
    sum(repeat_tasks)::bigint as repeat_tasks,
    sum(votes)::bigint as votes,
    sum(invalid)::bigint as invalid,
    sum(voted)::bigint as voted,
    sum(voted_tasks)::bigint as voted_tasks,
    sum(vote_tasks)::bigint as vote_tasks
from judge_cells
join judge_raters using (key)
group by kind, source, version, slice, level
order by
    kind, source, version,
    list_position(['all', 'depth', 'difficulty', 'epoch'], slice),
    try_cast(level as int), list_position(['easy', 'medium', 'hard', 'extreme'], level), level
