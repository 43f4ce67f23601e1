-- `$turns` act turns of 24 tokens for every node of the simulation, so that point reads have something to skip.
create or replace table sim_turns as
select
    n.epoch, n.run_id, n.shard_id, n.node_id || '#' || lpad(i::varchar, 4, '0') as turn_id, n.node_id, n.tree_id, n.task_id,
    'act' as kind, i as step, 'act' as role, 'w' as policy, n.epoch as policy_version, true as trainable, true as ok,
    if(i = 0, null, n.node_id || '#' || lpad((i - 1)::varchar, 4, '0')) as base_turn,
    [(hash(n.node_id, i, j) % 32000)::int for j in range(16)] as prompt_ids,
    [(hash(n.node_id, i, j, 1) % 32000)::int for j in range(24)] as completion_ids,
    [(-(hash(n.node_id, i, j, 2) % 4000)::int / 1000)::float for j in range(24)] as logprobs,
    'processed_logprobs' as logprobs_mode, (16 + 40 * i)::int as n_prompt, 'craft 1x plank, then say done' as text,
    1.0 as temperature, 1.0 as top_p, 64 as max_tokens, 'stop' as finish_reason,
    if(i + 1 = $turns, null, 'Crafted 1x plank, have 3.') as observation, 10 + i as order_stamp
from sim_nodes as n, range($turns) as steps(i)
