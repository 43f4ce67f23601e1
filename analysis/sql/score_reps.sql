-- Counts per distinct score: n scored nodes, `a` of them successful, per slice and replicate.
--   rep 0: the data, on distinct scores; rep > 0: bootstrap replicates, on score levels; rep -1: the data on those levels
create or replace temp table score_reps as
with
wide as (
    select
        slice, level, case rep when 0 then -1 else rep end as rep, key, sum(value) filter (name = 'n') as n,
        coalesce(sum(value) filter (name = 'a'), 0) as a, sum(value) filter (name = 's') / 1e9 as s
    from boot_sums
    where family = 'score'
    group by slice, level, rep, key
),
level_scores as (
    select key, bool_and(exact) as exact, min(score) as score from score_levels group by key
),
on_levels as (
    select w.slice, w.level, w.rep, w.key, case when l.exact then l.score else w.s / w.n end as score, w.n, w.a
    from wide as w
    join level_scores as l using (key)
    where w.n > 0
)
select * from (
    from on_levels
    union all by name
    select slice, level, 0 as rep, key, score, n, a from on_levels where rep = -1 and (select bool_and(exact) from score_levels)
    union all by name
    select slice, level, 0 as rep, key, score, n, a from exact_cells where not (select bool_and(exact) from score_levels)
)
order by slice, level, rep, key
