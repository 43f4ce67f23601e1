-- Trees of one phase by purpose: how many, how often they succeed, how they ended, how large they are.
select
    purpose,
    count(*) as trees,
    avg(success) as success,
    count(*) filter (outcome = 'finished') as finished,
    count(*) filter (outcome = 'not_finished') as not_finished,
    count(*) filter (outcome = 'truncated') as truncated,
    count(*) filter (outcome = 'loop') as loop,
    count(*) filter (outcome = 'timeout') as timeout,
    count(*) filter (outcome = 'infra_error') as infra_error,
    sum(n_delegations)::bigint as delegations,
    sum(n_turns)::bigint as turns,
    sum(n_all_nodes)::bigint as nodes,
    sum(n_all_tokens)::bigint as tokens
from trees
where run_id = $run_id and epoch = $epoch
group by purpose
order by purpose
