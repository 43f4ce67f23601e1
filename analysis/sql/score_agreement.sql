-- The score as a verdict: success when it is at least 0.5, against the program, per slice and replicate.
--   kappa = (po - pe) / (1 - pe) (Cohen 1960), beside raw agreement, both rates, and how each answer is recognised
create or replace temp table score_agreement as
with
total as (
    select
        slice, level, rep, sum(n) as n, sum(a) as y,
        coalesce(sum(n) filter (score >= 0.5 - 1e-9), 0) as j, coalesce(sum(a) filter (score >= 0.5 - 1e-9), 0) as jy
    from score_reps
    group by slice, level, rep
    having sum(n) > 0
),
rates as (
    select *, (n - j - y + 2 * jy) / n as po, j / n * y / n + (1 - j / n) * (1 - y / n) as pe from total
)
select
    slice, level, rep, (po - pe) / nullif(1 - pe, 0) as score_kappa, po as score_agreement, j / n as score_rate,
    jy / nullif(y, 0) as score_sensitivity, (n - j - y + jy) / nullif(n - y, 0) as score_specificity
from rates
