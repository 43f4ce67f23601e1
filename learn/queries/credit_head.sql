-- The first $n rows of a credit, in their fixed order.
select
    stage,
    group_id,
    turn_id,
    token_start,
    token_end,
    reward,
    baseline,
    advantage,
    trainable and selected as trained
from credited
order by stage, group_id, trajectory_id, turn_id, token_start
limit $n
