-- What stood in the way of the trees of one evaluation that failed, by band; a tree may count in several columns.
with failed as (
  select coalesce(evals.difficulty, '–') as band, root.tree_id
  from evals
  join nodes as root
    on root.epoch = evals.epoch and root.task_id = evals.task_id and root.sample = evals.sample and root.parent_id is null
  where evals.run_id = $run_id and evals.epoch = $epoch and evals.success = false
),
agents as (
  select failed.band, tree_id, node_id, depth, outcome, n_turns >= turn_budget as spent
  from failed
  join nodes using (tree_id)
  where on_path
),
refused as (
  select distinct agents.tree_id
  from turns
  join agents using (node_id)
  where len(list_filter(delegations, lambda launch: launch.status <> 'launched')) > 0
),
trees as (
  select
    band,
    tree_id,
    bool_or(depth = 0 and spent) as root_spent,
    bool_or(depth > 0 and spent) as helper_spent,
    bool_or(depth = $depth and spent) as deepest_spent,
    bool_or(outcome = 'truncated') as truncated,
    bool_or(outcome = 'loop') as loop,
    bool_or(outcome = 'timeout') as timeout,
    bool_or(depth = 0 and outcome = 'finished' and not spent) as ended_early
  from agents
  group by band, tree_id
)
select
  band,
  count(*) as failed,
  count(*) filter (where root_spent) as root_spent,
  count(*) filter (where helper_spent) as helper_spent,
  count(*) filter (where deepest_spent) as deepest_spent,
  count(*) filter (where truncated) as truncated,
  count(*) filter (where loop) as loop,
  count(*) filter (where timeout) as timeout,
  count(*) filter (where refused.tree_id is not null) as refused,
  count(*) filter (where ended_early) as ended_early
from trees
left join refused using (tree_id)
group by band
order by band
