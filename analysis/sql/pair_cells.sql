-- Sums per slice and task over audited pairs, and over their groups (delegation, rubric, scorer), each group as its mean.
-- The margin is compared with an epsilon: 0.7 - 0.5 is 0.19999999999999996 and does satisfy a margin of 0.2.
create or replace temp table pair_cells as
with scored_pair as (
    select
        *,
        case when gap > 1e-9 then 1.0 when gap >= -1e-9 then 0.5 else 0.0 end as half,
        (gap > 1e-9)::int::double as strict,
        (abs(gap) <= 1e-9)::int::double as tie,
        (gap < $margin - 1e-9)::int::double as violation,
        greatest(0, $margin - gap) as hinge
    from audit_pairs
),
grouped as (
    select
        epoch, task_id, difficulty, depth, count(*)::double as pairs,
        sum(half) as half, sum(strict) as strict, sum(tie) as tie, sum(violation) as violation,
        sum(hinge) as hinge, sum(gap) as gap
    from scored_pair
    group by epoch, task_id, difficulty, depth, delegation_id, rubric_id, scorer, scorer_version
),
sliced as (
    select
        *,
        unnest([
            {'slice': 'all', 'level': 'all'},
            {'slice': 'depth', 'level': depth::varchar},
            {'slice': 'difficulty', 'level': difficulty},
            {'slice': 'epoch', 'level': epoch::varchar}
        ], recursive := true)
    from grouped
)
select
    slice, level, task_id,
    sum(pairs) as pairs, sum(half) as half, sum(strict) as strict, sum(tie) as tie, sum(violation) as violation,
    sum(hinge) as hinge, sum(gap) as gap,
    count(*)::double as groups, sum(half / pairs) as group_half, sum(strict / pairs) as group_strict,
    sum(hinge / pairs) as group_hinge
from sliced
group by slice, level, task_id
