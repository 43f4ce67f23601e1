-- What the credit rows' turns are: completion length (null without ids), policy version, whether they can be trained.
select
    t.turn_id,
    len(t.completion_ids) as n_tokens,
    t.policy_version,
    t.trainable and t.completion_ids is not null and t.logprobs is not null as trainable
from turns t
where t.turn_id in (select turn_id from credit_rows)
