-- Faults that would make every other number wrong: one row per check, `found` of `looked_at` rows. All must be 0.
with first_start as (
    select delegation_id, min(order_start) as order_start from nodes where delegation_id is not null group by 1
),
per_delegation as (
    select delegation_id, count(*) filter (committed) as committed, count(distinct snapshot_digest) as snapshots
    from branches group by 1
)
select
    'rubric_after_child' as check_name,
    'rubrics frozen after the first branch of their delegation had started' as meaning,
    count(*) filter (r.order_stamp >= f.order_start) as found, count(*) as looked_at
from rubrics r join first_start f using (delegation_id) where r.phase = 'collect'
union all
select
    'score_not_a_number', 'valid scores that are missing or not finite',
    count(*) filter (final_score is null or not isfinite(final_score)), count(*)
from scores where valid
union all
select
    'score_out_of_range', 'valid scores below 0 or above 1',
    count(*) filter (isfinite(final_score) and (final_score < 0 or final_score > 1)), count(*)
from scores where valid
union all
select
    'duplicate_score', 'scores that occur more than once under one key (rubric, node, scorer, version)',
    (select count(*) - count(distinct (group_id, node_id, scorer, scorer_version)) from audit_scored where valid),
    (select count(*) from audit_scored where valid)
union all
select
    'foreign_rubric', 'scores whose rubric was written for another delegation',
    count(*) filter (r.delegation_id <> s.delegation_id), count(*)
from scores s join rubrics r using (rubric_id)
union all
select
    'not_one_committed', 'delegations without exactly one committed branch',
    count(*) filter (committed <> 1), count(*)
from per_delegation
union all
select
    'two_snapshots', 'delegations whose branches start from different states',
    count(*) filter (snapshots > 1), count(*)
from per_delegation
