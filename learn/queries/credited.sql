-- The credit rows with what their turns are: completion length (0 without ids), owner, version, whether they can be
-- trained. Rows of a turn that is not in the store keep nulls. The log-probabilities of a trainable turn are there by
-- the writer's rule, and a datum without them is refused; reading them here would cost as much as the rest.
create temp table credited as
select
    c.*,
    t.tree_id,
    t.node_id,
    t.kind,
    coalesce(len(t.completion_ids), 0) as n_tokens,
    t.policy_version,
    coalesce(t.trainable and t.completion_ids is not null, false) as trainable,
    true as selected,
    concat(t.epoch, '/', t.task_id) as own_group
from credit_rows c
left join turns t on t.turn_id = c.turn_id
