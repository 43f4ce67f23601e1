-- The turns of $epochs whose log-probabilities are still to be computed for $run_id, with the weights that sampled them
-- as `runs` names them (null where it does not): trainable ones with a completion, of $trees (all, where that is empty)
-- between $first and $last, by which files are pruned, and of the $column values in `chosen` where a where file named
-- some ('all': none was given).
create or replace temp table owed as
with served as (
    select distinct run_id, shard_id, p.role, p.name, p.version, p.weights_sha256
    from (select run_id, shard_id, unnest(policies) as p from runs)
)

select
    t.epoch,
    t.tree_id,
    t.task_id,
    t.node_id,
    t.turn_id,
    t.kind,
    t.role,
    t.policy,
    t.policy_version,
    t.temperature,
    s.weights_sha256,
    len(t.completion_ids) as n_tokens
from turns as t
left join served as s
    on (s.run_id, s.shard_id, s.role, s.name, s.version) = (t.run_id, t.shard_id, t.role, t.policy, t.policy_version)
anti join (select turn_id from logprobs where run_id = $run_id) as done on done.turn_id = t.turn_id
where t.trainable and len(t.completion_ids) > 0
    and list_contains($epochs, t.epoch)
    and t.tree_id between $first and $last
    and (len($trees) = 0 or list_contains($trees, t.tree_id))
    and (
        $column = 'all'
        or case $column
            when 'tree_id' then t.tree_id
            when 'node_id' then t.node_id
            when 'group_id' then concat(t.epoch, '/', t.task_id)
            else t.turn_id
        end in (select value from chosen)
    )
