-- One row per delegation: its branches as planned and as they came out. complete: all branches are there and whole.
-- committed: branches marked so; snapshots_agree: all start from one state; labelled, successes: of nodes that ran.
create or replace temp table audit_launches as
with
launched as (
    select
        delegation_id, any_value(epoch) as epoch, max(k) as k, bool_and(complete) and count(*) = max(k) as complete,
        count(*) filter (committed) as committed,
        coalesce(min(snapshot_digest) = max(snapshot_digest), true) as snapshots_agree
    from branches
    group by delegation_id
),
judged as (
    select delegation_id, count(y) as labelled, sum(y) as successes from audit_children group by delegation_id
)
select l.*, coalesce(j.labelled, 0) as labelled, j.successes
from launched as l
left join judged as j on j.delegation_id = l.delegation_id
