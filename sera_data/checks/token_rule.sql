-- Prompt lengths add up along base turns, base turns are earlier act turns of the node, logprobs align.
select t.turn_id as id, 'base_turn ' || t.base_turn || ' is not an earlier act turn of the node' as fault
from fresh.turns as t
anti join fresh.turns as b
    on b.turn_id = t.base_turn and b.node_id = t.node_id and b.kind = 'act' and b.step < t.step
where t.base_turn is not null
union all
select t.turn_id, 'n_prompt is ' || t.n_prompt || ', base prompt + base completion + prompt_ids is '
    || (coalesce(b.n_prompt + len(b.completion_ids), 0) + len(t.prompt_ids))
from fresh.turns as t
left join fresh.turns as b on b.turn_id = t.base_turn
where t.prompt_ids is not null
    and t.n_prompt is distinct from coalesce(b.n_prompt + len(b.completion_ids), 0) + len(t.prompt_ids)
union all
select turn_id, 'logprobs do not align with completion_ids'
from fresh.turns where logprobs is not null and len(logprobs) is distinct from len(completion_ids)
union all
select turn_id, 'trainable without ids or logprobs'
from fresh.turns where trainable and (completion_ids is null or prompt_ids is null or logprobs is null)
order by 1, 2
