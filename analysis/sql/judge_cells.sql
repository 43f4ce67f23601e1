-- Sums per rater, slice and task: votes, nodes with both verdicts by who said yes, nodes with repeated votes.
--   agreeing = sum over nodes of the share of vote pairs that agree: (yes (yes - 1) + no (no - 1)) / (v (v - 1))
create or replace temp table judge_cells as
with sliced as (
    select
        *,
        value is not null and y is not null as shared,
        valid >= 2 as repeated,
        unnest([
            {'slice': 'all', 'level': 'all'},
            {'slice': 'depth', 'level': depth::varchar},
            {'slice': 'difficulty', 'level': difficulty},
            {'slice': 'epoch', 'level': epoch::varchar}
        ], recursive := true)
    from audit_judged
)
select
    kind, source, version, slice, level, task_id,
    sum(votes)::double as votes,
    sum(votes - valid)::double as invalid,
    count(*) filter (shared)::double as nodes,
    count(*) filter (shared and value = y)::double as same,
    coalesce(sum(value) filter (shared), 0) as judge_yes,
    coalesce(sum(y) filter (shared), 0) as program_yes,
    coalesce(sum(value * y) filter (shared), 0) as both_yes,
    count(*) filter (repeated)::double as repeats,
    coalesce(sum((yes * (yes - 1) + (valid - yes) * (valid - yes - 1)) / (valid * (valid - 1))) filter (repeated), 0)
        as agreeing,
    coalesce(sum(valid) filter (repeated), 0)::double as repeat_votes,
    coalesce(sum(yes) filter (repeated), 0) as repeat_yes
from sliced
group by kind, source, version, slice, level, task_id
