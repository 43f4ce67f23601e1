-- Sums per rater (key of judge_raters), slice and block: votes, nodes with both verdicts by who said yes, nodes with
-- repeated votes, and all nodes with a verdict of the rater (voted, voted_yes).
--   agreeing = sum over nodes of the share of vote pairs that agree: (yes (yes - 1) + no (no - 1)) / (v (v - 1)), in 1e-9
create or replace temp table judge_cells as
with sliced as (
    select
        j.*, b.task, b.block, r.key,
        j.value is not null and j.y is not null as shared,
        j.valid >= 2 as repeated,
        unnest([
            {'slice': 'all', 'level': 'all'},
            {'slice': 'depth', 'level': j.depth::varchar},
            {'slice': 'difficulty', 'level': j.difficulty},
            {'slice': 'epoch', 'level': j.epoch::varchar}
        ], recursive := true)
    from audit_judged as j
    join judge_raters as r using (kind, source, version)
    join boot_blocks as b on b.task_id = j.task_id
)
select
    slice, level, block, key,
    count(distinct task) filter (shared) as node_tasks,
    count(distinct task) filter (repeated) as repeat_tasks,
    count(distinct task) filter (value is not null) as voted_tasks,
    count(distinct task) as vote_tasks,
    sum(votes) as votes,
    sum(votes - valid) as invalid,
    count(*) filter (shared) as nodes,
    count(*) filter (shared and value = y) as same,
    coalesce(sum(value) filter (shared), 0) as judge_yes,
    coalesce(sum(y) filter (shared), 0) as program_yes,
    coalesce(sum(value * y) filter (shared), 0) as both_yes,
    count(*) filter (repeated) as repeats,
    coalesce(
        sum(case when repeated
            then (1e9 * (yes * (yes - 1) + (valid - yes) * (valid - yes - 1)) / (valid * (valid - 1)))::bigint end),
        0
    ) as agreeing,
    coalesce(sum(valid) filter (repeated), 0) as repeat_votes,
    coalesce(sum(yes) filter (repeated), 0) as repeat_yes,
    count(value) as voted,
    coalesce(sum(value), 0) as voted_yes
from sliced
group by slice, level, block, key
