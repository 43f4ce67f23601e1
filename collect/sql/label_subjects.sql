-- The nodes of one unit with their goals, states and how they ended, in stored order.
select
    n.node_id, n.tree_id, n.task_id, n.depth, t.goal as root_task, p.goal as parent_goal, n.goal, n.context, n.targets,
    n.outcome, n.message, n.start_state, n.end_state, t.world, t.profile, t.split, t.difficulty, t.family, t.seed, t.spec,
    b.scheduling,
    coalesce(
        json_extract_string(r.config, '$.budgets.loop'), json_extract_string(r.config, '$.collect.budgets.loop'), 'failure'
    ) as loop
from nodes as n
join tasks as t on t.task_id = n.task_id
left join runs as r on r.run_id = n.run_id and r.shard_id = n.shard_id
left join nodes as p on p.node_id = n.parent_id
left join branches as b on b.delegation_id = n.delegation_id and b.branch = n.branch
where n.node_id in (select unnest($nodes))
order by n.task_id, n.tree_id, n.node_id
