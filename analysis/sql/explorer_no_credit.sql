-- An empty table in place of a credit file.
create table credit (
    turn_id varchar, trajectory_id varchar, stage varchar, token_start integer, token_end integer, reward double,
    baseline double, advantage double, depth integer, group_id varchar
)
