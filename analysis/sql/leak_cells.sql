-- Sums per block for the checks on cheating, all in whole numbers (scores and logarithms in units of 1e-6):
--   residual_y / residual_n: final score - weighted item scores, of successes / failures, with their counts; only where
--     the final score is above 0, because a rubric's gate may set it to 0
--   per verdict y in {0, 1}: n, score, score^2, log length, its square, their product (for the partial correlation)
--   idle: failures that left the world as they found it; self / other: score - y by whether the scorer's policy version
--   is the one that acted; full: nodes whose every criterion (or the score) is at least 0.95
create or replace temp table leak_cells as
with
located as (
    select
        r.block, r.y::int as y, (r.score * 1e6)::bigint as s, (ln(r.length) * 1e6)::bigint as l,
        case when r.score > 1e-9 then ((r.score - r.weighted_score) * 1e6)::bigint end as residual,
        ((r.score - r.y) * 1e6)::bigint as error, r.idle, r.acted = r.scorer_version as own,
        (r.score >= 0.95)::int as top
    from audit_located as r
    where r.valid
)
select
    'all' as slice, 'all' as level, block,
    count(residual) filter (y = 1) as residual_y_n, coalesce(sum(residual) filter (y = 1), 0) as residual_y,
    count(residual) filter (y = 0) as residual_n_n, coalesce(sum(residual) filter (y = 0), 0) as residual_n,
    count(*) filter (y = 1) as n1, coalesce(sum(s) filter (y = 1), 0) as s1,
    coalesce(sum(s * s) filter (y = 1), 0) as ss1, coalesce(sum(l) filter (y = 1), 0) as l1,
    coalesce(sum(l * l) filter (y = 1), 0) as ll1, coalesce(sum(s * l) filter (y = 1), 0) as sl1,
    count(*) filter (y = 0) as n0, coalesce(sum(s) filter (y = 0), 0) as s0,
    coalesce(sum(s * s) filter (y = 0), 0) as ss0, coalesce(sum(l) filter (y = 0), 0) as l0,
    coalesce(sum(l * l) filter (y = 0), 0) as ll0, coalesce(sum(s * l) filter (y = 0), 0) as sl0,
    count(*) filter (y = 0 and idle) as idle_n, coalesce(sum(s) filter (y = 0 and idle), 0) as idle_s,
    count(*) filter (own) as own_n, coalesce(sum(error) filter (own), 0) as own_error,
    count(*) filter (not own) as other_n, coalesce(sum(error) filter (not own), 0) as other_error,
    sum(top) as top
from located
group by block
