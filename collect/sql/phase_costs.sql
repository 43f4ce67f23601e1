-- What a phase has spent by role, of calls that had a price: calls, tokens and the amount written down with them.
select role, sum(n_turns)::bigint as calls, sum(n_full_prompt_tokens)::bigint as prompt_tokens,
    sum(n_completion_tokens)::bigint as completion_tokens, sum(cost) as cost
from costs
where run_id = $run_id and epoch = $epoch
group by role
having sum(cost) is not null
order by role
