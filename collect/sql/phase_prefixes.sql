-- Shared prefix tokens of one phase and how many of them came from a cache. A turn that goes on with a chat shares all
-- but its own delta; an opening asked before (the samples of a task, the branches of a delegation) shares all but its
-- last token, which an engine always computes. Turns whose engine does not say what it cached are not counted.
with
asked as (
    select
        n_prompt,
        n_cached,
        len(prompt_ids) as n_new,
        base_turn is null as opening,
        row_number() over (partition by policy, prompt_sha256 order by started_at, turn_id) as nth
    from turns
    where run_id = $run_id and epoch = $epoch and n_cached is not null and n_prompt is not null
),
shared as (
    select n_cached, case when not opening then n_prompt - n_new when nth > 1 then n_prompt - 1 else 0 end as n_shared
    from asked
)
select coalesce(sum(n_shared), 0)::bigint as shared, coalesce(sum(least(n_cached, n_shared)), 0)::bigint as cached
from shared
