-- A synthetic epoch: groups of eight trees of 25 nodes. Each tree has a root with three delegating turns; the first
-- forks eight branches (1 on path, 7 off), the other two launch one child each; every child of these ten launches one
-- child more but every second of the off-path ones, which makes 1 + 10 + ... nodes. Variables: n_trees.
create table trees as
select
    'r' || lpad(to_hex(i), 16, '0') as tree_id,
    't' || lpad(to_hex(i // 8), 16, '0') as task_id,
    i % 8 as sample,
    ['execution', 'delegation', 'rubric'][1 + (i // 8) % 3] as purpose
from range(getvariable('n_trees')) as t (i);

create table children as
select
    tree_id || '/t' || step || 'd0' as delegation_id,
    tree_id || '/t' || step || 'd0b' || branch as node_id,
    tree_id as parent_id,
    branch,
    case when step = 0 then 8 else 1 end as k,
    1 as depth,
    branch = 0 as on_path,
    *
from trees
cross join (
    select 0 as step, unnest(range(8)) as branch
    union all
    select unnest([1, 2]), 0
);

create table grandchildren as
select
    node_id || '/t' || step2 || 'd0' as delegation_id,
    node_id || '/t' || step2 || 'd0b0' as node_id,
    node_id as parent_id,
    0 as branch,
    1 as k,
    2 as depth,
    on_path,
    tree_id,
    task_id,
    sample,
    purpose,
    step2 as step
from children
cross join (select unnest([0, 1]) as step2)
where step2 = 0 or branch % 2 = 0;

create table launched as
select delegation_id, node_id, parent_id, branch, k, depth, on_path, tree_id, task_id, sample, purpose, step from children
union all
select delegation_id, node_id, parent_id, branch, k, depth, on_path, tree_id, task_id, sample, purpose, step
from grandchildren;

create table nodes as
select
    'bench' as run_id, 'e000000.u0000' as shard_id, 0 as epoch, *, 'finished' as outcome,
    0 as policy_version_min, 0 as policy_version_max
from (
    select
        tree_id as node_id, tree_id, task_id, sample, null as parent_id, null as delegation_id, null as branch,
        true as on_path, 0 as depth, purpose
    from trees
    union all
    select node_id, tree_id, task_id, sample, parent_id, delegation_id, branch, on_path, depth, purpose
    from launched
);

create table tasks as
select distinct 'bench' as run_id, 'e000000.u0000' as shard_id, 0 as epoch, task_id, 'textcraft' as world from trees;

create table branches as
select
    'bench' as run_id, 'e000000.u0000' as shard_id, 0 as epoch, delegation_id, branch, k, node_id, parent_id, tree_id,
    task_id, depth, branch = 0 as committed, true as complete
from launched;

create table labels as
select
    'bench' as run_id, 'e000000.u0000' as shard_id, 0 as epoch, node_id, tree_id, task_id, 'textcraft' as source,
    'net-gain-1' as version, 0 as attempt, 'program' as kind, 'train' as "use", true as valid,
    (hash(node_id) % 2)::double as value, '{"gained":{"a1_i1":1},"least_steps":4,"missing":{}}' as details
from nodes;

create table rubrics as
select distinct
    'bench' as run_id, 'e000000.u0000' as shard_id, 0 as epoch, delegation_id || '~policy~0~0' as rubric_id, delegation_id,
    parent_id as node_id, tree_id, task_id, parent_id || '#r' || step as turn_id, 'policy' as writer, 0 as writer_version,
    0 as k, 0 as attempt, 'collect' as phase, true as valid
from launched;

create table scores as
select
    'bench' as run_id, 'e000000.u0000' as shard_id, 0 as epoch, delegation_id || '~policy~0~0' as rubric_id, node_id,
    delegation_id, tree_id, task_id, 'policy' as scorer, 0 as scorer_version, 0 as attempt, 'collect' as phase, true as valid,
    (hash(node_id, 1) % 21) / 20.0 as final_score, hash(node_id, 1) % 21 > 10 as success, node_id || '#s0' as turn_id
from launched;

-- three act turns per node; a delegating one carries its launch
create table turns as
select
    'bench' as run_id, 'e000000.u0000' as shard_id, 0 as epoch, *, 'policy' as policy, 0 as policy_version,
    true as trainable, true as ok,
    list_transform(range((12 + hash(turn_id) % 24)::bigint), lambda x: (x * 7919) % 151643)::int[] as completion_ids,
    list_transform(range((12 + hash(turn_id) % 24)::bigint), lambda x: -0.5)::float[] as logprobs,
    1.0 as temperature
from (
    select
        n.node_id || '#' || lpad(s.step::varchar, 4, '0') as turn_id, n.node_id, n.tree_id, n.task_id, 'act' as kind,
        s.step, 'act' as role,
        coalesce(l.launches, []) as delegations
    from nodes n
    cross join (select unnest(range(3)) as step) s
    left join (
        select
            parent_id, step,
            list({
                'delegation_id': delegation_id, 'status': 'launched', 'reason': null, 'targets': null,
                'char_start': 0, 'char_end': 9, 'token_start': 2, 'token_end': 8
            }) as launches
        from launched
        where branch = 0
        group by parent_id, step
    ) l on l.parent_id = n.node_id and l.step = s.step
    union all
    select turn_id, node_id, tree_id, task_id, 'rubric', null, 'writer', []
    from rubrics
    union all
    select turn_id, node_id, tree_id, task_id, 'score', null, 'scorer', []
    from scores
);
