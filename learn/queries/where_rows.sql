-- What a where file sees as `credit_rows`: the paid rows with their tree and node.
create or replace temp view credit_rows as
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
    tree_id,
    node_id,
    trainable
from credited
