-- A rule's checked rows in the types of the contract. -0.0 becomes 0.0, so that equal numbers have equal hashes.
insert into credit_rows
select
    turn_id::varchar,
    trajectory_id::varchar,
    stage::varchar,
    token_start::integer,
    token_end::integer,
    reward::double + 0.0,
    baseline::double + 0.0,
    advantage::double + 0.0,
    depth::integer,
    group_id::varchar
from credit_part
