-- Brier score and its exact Murphy decomposition on distinct scores: brier = reliability - resolution + uncertainty.
--   reliability = sum n (s - a)^2 / N    resolution = sum n (a - p)^2 / N    uncertainty = p (1 - p)
--   skill = 1 - brier / uncertainty: above 0 when the scores beat the base rate p
create or replace temp table brier_metrics as
with base as (
    select *, sum(a) over (partition by slice, level, rep) / sum(n) over (partition by slice, level, rep) as p
    from score_reps
),
part as (
    select
        slice, level, rep,
        sum(a * power(1 - score, 2) + (n - a) * power(score, 2)) / sum(n) as brier,
        sum(n * power(score - a / n, 2)) / sum(n) as reliability,
        sum(n * power(a / n - p, 2)) / sum(n) as resolution,
        any_value(p * (1 - p)) as uncertainty
    from base
    group by slice, level, rep
)
select *, 1 - brier / nullif(uncertainty, 0) as skill
from part
