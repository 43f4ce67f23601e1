-- The table that collects the rows of all rules.
create or replace temp table credit_rows (
    turn_id varchar,
    trajectory_id varchar,
    stage varchar,
    token_start integer,
    token_end integer,
    reward double,
    baseline double,
    advantage double,
    depth integer,
    group_id varchar
)
