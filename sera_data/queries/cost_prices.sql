-- What the calls of a store cost by a price file: calls and tokens per run, epoch, role and model, times the price per
-- million tokens. Reads the table `prices` (model, role, input, cached, output). A model without a price has no amount;
-- so has one whose calls nobody counted (`n_uncounted`). `stored`: what was written down when the calls were made.
-- Tokens of policies with ids are those of whole prompts, as an engine without a cache reads them; cached ones are
-- those that the engine says it had.
with
calls as (
    select run_id, epoch, role, policy as model, coalesce(n_prompt, 0) as n_prompt, coalesce(n_cached, 0) as n_cached,
        coalesce(n_completion, len(completion_ids), 0) as n_completion, cost,
        n_prompt is null or coalesce(n_completion, len(completion_ids)) is null as uncounted
    from turns where finish_reason <> 'error'
    union all
    select run_id, epoch, 'judge', source, coalesce(prompt_tokens, 0), 0, coalesce(completion_tokens, 0), cost,
        prompt_tokens is null or completion_tokens is null
    from labels where kind = 'judge'
),
sums as (
    select run_id, epoch, role, model, count(*) as n_calls, count(*) filter (where uncounted) as n_uncounted,
        sum(n_prompt)::bigint as n_prompt_tokens, sum(least(n_cached, n_prompt))::bigint as n_cached_tokens,
        sum(n_completion)::bigint as n_completion_tokens, sum(cost) as stored
    from calls group by all
)
select s.*, p.input, p.cached, p.output,
    case when n_uncounted < n_calls then (
        (n_prompt_tokens - n_cached_tokens) * p.input + n_cached_tokens * p.cached + n_completion_tokens * p.output
    ) / 1e6 end as cost
from sums as s left join prices as p on p.model = s.model and p.role = s.role
order by run_id, epoch, role, model
