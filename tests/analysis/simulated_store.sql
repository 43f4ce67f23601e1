-- A store of scored branches whose scores are calibrated exactly: a score s is drawn on a grid of 0.1, success is drawn
-- with probability s, criteria average to s, length is independent of both. One plant at most spoils one thing.
create or replace table sim_launch as
select
    'm' || lpad(t::varchar, 6, '0') as task_id, t, e as epoch, d,
    'r' || lpad(t::varchar, 6, '0') || 'e' || e as tree_id,
    1 + d % 2 as depth,
    'r' || lpad(t::varchar, 6, '0') || 'e' || e || '/t' || (d // 2) || 'd0' || if(d % 2 = 1, 'b0/t0d0', '') as delegation_id,
    ['easy', 'medium', 'hard'][1 + t % 3] as difficulty
from range($tasks) as tasks(t), range($epochs) as epochs(e), range($launches) as launches(d);

create or replace table sim_branch as
with
drawn as (
    select
        l.*, b as branch,
        sqrt(-2 * ln((hash(t, 1, $seed) / 18446744073709551616.0) + 1e-12))
            * cos(6.283185307 * hash(t, 2, $seed) / 18446744073709551616.0) as task_normal,
        sqrt(-2 * ln((hash(t, epoch, d, 3, $seed) / 18446744073709551616.0) + 1e-12))
            * cos(6.283185307 * hash(t, epoch, d, 4, $seed) / 18446744073709551616.0) as launch_normal,
        sqrt(-2 * ln((hash(t, epoch, d, b, 5, $seed) / 18446744073709551616.0) + 1e-12))
            * cos(6.283185307 * hash(t, epoch, d, b, 6, $seed) / 18446744073709551616.0) as branch_normal,
        sqrt(-2 * ln((hash(t, epoch, d, b, 7, $seed) / 18446744073709551616.0) + 1e-12))
            * cos(6.283185307 * hash(t, epoch, d, b, 8, $seed) / 18446744073709551616.0) as length_normal,
        hash(t, epoch, d, b, 9, $seed) / 18446744073709551616.0 as success_draw,
        hash(t, epoch, d, b, 10, $seed) / 18446744073709551616.0 as plant_draw,
        hash(t, epoch, d, 11, $seed) / 18446744073709551616.0 as launch_draw,
        hash(t, epoch, d, b, 14, $seed) / 18446744073709551616.0 as step_draw,
        (hash(t, epoch, d, b, 12, $seed) % 3)::int - 1 as step_one,
        (hash(t, epoch, d, b, 13, $seed) % 3)::int - 1 as step_two
    from sim_launch as l, range(8) as branches(b)
),
calibrated as (
    select
        *,
        least(greatest(round(1 / (1 + exp(
            case when $plant = 'easy tasks' then 0.2 - 5 * task_normal - 0.75 * branch_normal
            else 0.2 - 0.4 * task_normal - 0.3 * launch_normal - 1.2 * branch_normal end
        )), 1), if($plant = 'easy tasks', 0.05, 0.1)), if($plant = 'easy tasks', 0.95, 0.8)) as clean
    from drawn
),
judged as (
    select *, (success_draw < clean)::int::double as y, avg(clean) over (partition by delegation_id) as launch_mean
    from calibrated
),
shifted as (
    select
        *,
        case
            when $plant = 'inflation' then clean + 0.15
            when $plant = 'timid' then 0.5 + 0.1 * (clean - 0.5)
            when $plant = 'lottery' and step_draw < 0.65 then lag(clean) over (order by plant_draw, delegation_id, branch)
            when $plant = 'drift' then clean + if(epoch = 0, -0.06, 0.06)
            when $plant = 'ties' and launch_draw < 0.6 then round(launch_mean * 20) / 20
            when $plant = 'slice' and depth = 2
                then nth_value(clean, 1) over (
                    partition by delegation_id order by plant_draw, branch rows between 1 following and 1 following
                )
            else clean
        end as level
    from judged
),
scored as (
    select
        * exclude (level),
        coalesce(level, clean) as weighted,
        case
            when $plant = 'length' then round(least(greatest(clean + 0.07 * length_normal, 0), 1) * 20) / 20
            when $plant = 'leak' and plant_draw < 0.3 then y
            else coalesce(level, clean)
        end as score
    from shifted
)
select
    *, round(exp(5 + 0.6 * length_normal))::int as tokens,
    if($plant = 'constant item', (weighted - 0.05) / 0.9, weighted) as others,
    if($plant = 'constant item', 0.05, 0.1) as step
from scored;

create or replace table sim_tasks as
select distinct epoch, 'sim-0' as run_id, 'e' || lpad(epoch::varchar, 6, '0') || '.u0000' as shard_id, task_id,
    'simulated' as world, difficulty
from sim_launch;

create or replace table sim_nodes as
select
    epoch, 'sim-0' as run_id, 'e' || lpad(epoch::varchar, 6, '0') || '.u0000' as shard_id,
    delegation_id || 'b' || branch as node_id, tree_id, task_id, delegation_id,
    regexp_replace(delegation_id, '/t[0-9]+d0$', '') as parent_id, branch, branch = 0 as on_path, depth, 'rubric' as purpose,
    'finished' as outcome, 'start' as start_digest, delegation_id || branch as end_digest, 3 as n_turns,
    tokens as n_completion_tokens, epoch as policy_version_min, epoch as policy_version_max, 10 as order_start
from sim_branch
union all by name
select distinct
    epoch, 'sim-0' as run_id, 'e' || lpad(epoch::varchar, 6, '0') || '.u0000' as shard_id, tree_id as node_id, tree_id, task_id,
    true as on_path, 0 as depth, 'rubric' as purpose, 'finished' as outcome, 'start' as start_digest,
    'end' as end_digest, 3 as n_turns, 100 as n_completion_tokens
from sim_launch;

create or replace table sim_branches as
select
    epoch, 'sim-0' as run_id, 'e' || lpad(epoch::varchar, 6, '0') || '.u0000' as shard_id, delegation_id, branch, 8 as k,
    delegation_id || 'b' || branch as node_id, regexp_replace(delegation_id, '/t[0-9]+d0$', '') as parent_id, tree_id, task_id,
    depth, branch = 0 as committed, 'start' as snapshot_digest, 'recommended' as selection, true as complete
from sim_branch;

create or replace table sim_rubrics as
select
    epoch, 'sim-0' as run_id, 'e' || lpad(epoch::varchar, 6, '0') || '.u0000' as shard_id, delegation_id || '~w~0~0' as rubric_id,
    delegation_id, regexp_replace(delegation_id, '/t[0-9]+d0$', '') as node_id, tree_id, task_id, 'w' as writer,
    epoch as writer_version, 0 as k, 0 as attempt, 'collect' as phase, true as valid,
    [{'name': 'goal', 'description': 'What was asked for is there', 'weight': 0.25}] as items,
    'it is there' as success_gate, 'it is missing' as failure_conditions, 'weighted sum' as procedure,
    md5(delegation_id) as rubric_sha256, 'p' as prompt_sha256,
    if($plant = 'late rubric' and t % 10 = 0, 15, 5) as order_stamp
from sim_launch;

create or replace table sim_labels as
select
    epoch, 'sim-0' as run_id, 'e' || lpad(epoch::varchar, 6, '0') || '.u0000' as shard_id, delegation_id || 'b' || branch as node_id,
    tree_id, task_id, 'simulated' as source, '1' as version, 0 as attempt, 'program' as kind, 'train' as use,
    1.0 as inclusion_probability, true as valid, y as value
from sim_branch
union all
select
    epoch, 'sim-0' as run_id, 'e' || lpad(epoch::varchar, 6, '0') || '.u0000' as shard_id, delegation_id || 'b' || branch as node_id,
    tree_id, task_id, 'judge' as source, '1' as version, 0 as attempt, 'judge' as kind, 'audit' as use,
    1.0 as inclusion_probability, true as valid, (plant_draw < 0.5)::int::double as value
from sim_branch
where $plant = 'coin judge' and branch % 2 = 0;

create or replace table sim_scores as
select
    epoch, 'sim-0' as run_id, 'e' || lpad(epoch::varchar, 6, '0') || '.u0000' as shard_id, delegation_id || '~w~0~0' as rubric_id,
    delegation_id || 'b' || branch as node_id, delegation_id, tree_id, task_id, 's' as scorer, epoch as scorer_version,
    0 as attempt, 'collect' as phase, true as valid, score as final_score,
    [
        {'name': 'goal', 'score': others + step * step_one}, {'name': 'method', 'score': others - step * step_one},
        {'name': 'evidence', 'score': others + if($plant = 'constant item', 0, step * step_two)},
        {'name': 'tidy', 'score': if($plant = 'constant item', 0.5, others - step * step_two)}
    ] as item_scores,
    weighted as weighted_score, 20 as order_stamp
from sim_branch
