-- One small row per tree, made once at opening: what the lists filter and sort by. A group (all samples of a task in one
-- epoch) is mixed when some of its trees succeeded and some failed.
create or replace temp table listed_trees as
with ends as (
    select tree_id, count(*) filter (outcome = 'loop') as n_loops, count(*) filter (outcome = 'infra_error') as n_infra
    from nodes group by tree_id
)
select
    t.tree_id, t.run_id, t.epoch, t.task_id, t.sample, t.difficulty, t.purpose, t.outcome, t.success, t.n_nodes,
    t.n_all_nodes, t.n_delegations, e.n_loops, e.n_infra, k.goal,
    coalesce(
        min(t.success) over (partition by t.run_id, t.epoch, t.task_id)
            < max(t.success) over (partition by t.run_id, t.epoch, t.task_id),
        false
    ) as mixed
from trees as t
join ends as e using (tree_id)
left join tasks as k using (task_id)
