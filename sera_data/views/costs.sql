-- What each role cost per run and epoch: turns, prompt tokens sent (deltas), prompt tokens read (full prompts) and
-- completion tokens, as a server counts them where there are no ids, and the price that was written down with the
-- calls (null without a price file). Labels count under the role of their kind: program, judge or human.
select
    run_id,
    epoch,
    role,
    count(*) as n_turns,
    coalesce(sum(len(prompt_ids)), 0)::bigint as n_prompt_tokens,
    coalesce(sum(n_prompt), 0)::bigint as n_full_prompt_tokens,
    coalesce(sum(coalesce(len(completion_ids), n_completion)), 0)::bigint as n_completion_tokens,
    sum(cost) as cost
from turns
group by run_id, epoch, role
union all
select
    run_id,
    epoch,
    kind as role,
    count(*) as n_turns,
    coalesce(sum(prompt_tokens), 0)::bigint as n_prompt_tokens,
    coalesce(sum(prompt_tokens), 0)::bigint as n_full_prompt_tokens,
    coalesce(sum(completion_tokens), 0)::bigint as n_completion_tokens,
    sum(cost) as cost
from labels
group by run_id, epoch, kind
