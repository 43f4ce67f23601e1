-- The turns with the token ids of `spelled` (turn_id, base_turn, prompt_ids, completion_ids, logprobs) where the store
-- has text only. Their log-probabilities are 0: nobody sampled them from a known distribution, and imitation needs none.
create or replace view turns as
select
    t.* replace (
        case when s.turn_id is null then t.base_turn else s.base_turn end as base_turn,
        coalesce(s.prompt_ids, t.prompt_ids) as prompt_ids,
        coalesce(s.completion_ids, t.completion_ids) as completion_ids,
        coalesce(s.logprobs, t.logprobs) as logprobs,
        t.trainable or s.turn_id is not null as trainable
    )
from turns_as_stored as t
left join spelled as s on s.turn_id = t.turn_id
