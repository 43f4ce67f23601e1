-- The weights that sampled what is owed: whose they are, and how much each sampled.
select
    policy as name,
    policy_version as version,
    weights_sha256,
    list_sort(list(distinct epoch)) as epochs,
    list_sort(list(distinct role)) as roles,
    count(*) as n_turns,
    sum(n_tokens)::bigint as n_tokens,
    min(turn_id) as first_turn
from owed
group by policy, policy_version, weights_sha256
order by policy, policy_version, weights_sha256
