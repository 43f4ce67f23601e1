-- All credit rows in their fixed order.
select
    turn_id,
    trajectory_id,
    stage,
    token_start,
    token_end,
    reward,
    baseline,
    advantage,
    depth,
    group_id,
    trainable
from credited
order by stage, group_id, trajectory_id, turn_id, token_start
