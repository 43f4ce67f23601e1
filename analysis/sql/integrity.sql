-- Faults that would make every other number wrong: one row per check, `found` of `looked_at` rows. All must be 0.
with
first_start as (
    select delegation_id, min(order_start) as order_start from nodes where delegation_id is not null group by 1
),
frozen as (
    select count(*) filter (r.order_stamp >= f.order_start) as late, count(*) as n
    from rubrics as r
    join first_start as f using (delegation_id)
    where r.phase = 'collect'
),
score as (
    select
        count(*) filter (s.valid and (s.final_score is null or not isfinite(s.final_score))) as no_number,
        count(*) filter (s.valid and isfinite(s.final_score) and (s.final_score < 0 or s.final_score > 1)) as outside,
        count(*) filter (s.valid) as n,
        count(*) filter (r.delegation_id <> s.delegation_id) as other_rubric,
        count(r.rubric_id) as under_rubric
    from scores as s
    left join rubrics as r on r.rubric_id = s.rubric_id
),
same_key as (
    select coalesce(sum(n - 1), 0)::bigint as repeated, coalesce(sum(n), 0)::bigint as n
    from (
        select count(*) as n from audit_scored where valid group by group_id, node, by_whom
    )
),
delegation as (
    select
        count(*) filter (committed <> 1) as not_one, count(*) filter (not snapshots_agree) as apart, count(*) as n
    from audit_launches
)
select
    'rubric_after_child' as check_name,
    'rubrics frozen after the first branch of their delegation had started' as meaning, late as found, n as looked_at
from frozen
union all
select 'score_not_a_number', 'valid scores that are missing or not finite', no_number, n from score
union all
select 'score_out_of_range', 'valid scores below 0 or above 1', outside, n from score
union all
select 'duplicate_score', 'scores that occur more than once under one key (rubric, node, scorer, version)', repeated, n
from same_key
union all
select 'foreign_rubric', 'scores whose rubric was written for another delegation', other_rubric, under_rubric from score
union all
select 'not_one_committed', 'delegations without exactly one committed branch', not_one, n from delegation
union all
select 'two_snapshots', 'delegations whose branches start from different states', apart, n from delegation
