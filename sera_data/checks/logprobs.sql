-- Log-probabilities computed again belong to a trainable turn, align with its completion, and come from the version,
-- temperature and weights that sampled it (as far as `runs` says which weights these were).
with
rows as (
    select
        l.turn_id,
        l.run_id,
        l.n_tokens,
        len(l.logprobs) as n_logprobs,
        l.logprobs_mode,
        l.policy_version,
        l.temperature,
        l.weights_sha256,
        t.turn_id is not null as there,
        t.trainable,
        len(t.completion_ids) as n_completion,
        t.policy_version as sampled_version,
        t.temperature as sampled_temperature,
        s.weights_sha256 as sampled_weights
    from fresh.logprobs as l
    left join known.turns as t on t.turn_id = l.turn_id
    left join (
        select distinct run_id, shard_id, p.role, p.name, p.version, p.weights_sha256
        from (select run_id, shard_id, unnest(policies) as p from known.runs)
        where p.weights_sha256 is not null
    ) as s
        on (s.run_id, s.shard_id, s.role, s.name, s.version)
        = (t.run_id, t.shard_id, t.role, t.policy, t.policy_version)
)

select turn_id || ' of run ' || run_id as id, 'turn_id ' || turn_id || ' is not in turns' as fault
from rows where not there
union all
select turn_id || ' of run ' || run_id, 'the turn is not trainable, so nothing is computed again'
from rows where not trainable
union all
select turn_id || ' of run ' || run_id,
    'it has ' || n_logprobs || ' log-probabilities for ' || n_completion || ' completion ids'
from rows where n_logprobs is distinct from n_completion and trainable
union all
select turn_id || ' of run ' || run_id, 'n_tokens is ' || n_tokens || ', it has ' || n_logprobs || ' log-probabilities'
from rows where n_tokens <> n_logprobs
union all
select turn_id || ' of run ' || run_id, 'logprobs_mode must be processed_logprobs, got ' || logprobs_mode
from rows where logprobs_mode <> 'processed_logprobs'
union all
select turn_id || ' of run ' || run_id,
    'it was computed by version ' || policy_version || ', the turn was sampled by version ' || sampled_version
from rows where policy_version <> sampled_version
union all
select turn_id || ' of run ' || run_id,
    'it was computed at temperature ' || temperature || ', the turn was sampled at ' || sampled_temperature
from rows where temperature <> sampled_temperature
union all
select turn_id || ' of run ' || run_id,
    'it was computed by weights ' || weights_sha256[:12] || ', the turn was sampled by ' || sampled_weights[:12]
from rows where weights_sha256 <> sampled_weights
order by 1, 2
