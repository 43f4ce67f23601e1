-- Calibration on distinct scores. With n nodes of score s and success rate a, v = a (1 - a) / (n - 1), N nodes in all:
--   bias = mean score - success rate          ece = sum n |s - a| / N          max_gap = max |s - a|
--   l2_squared = sum over n > 1 of n ((s - a)^2 - v) / N     (debiased; may be below 0)
--   curve_squared = l2_squared - (bias^2 - sum n^2 v / N^2): what is left of it when a constant is taken off all scores
--   repeated = share of nodes whose score occurs more than once, which is what l2_squared rests on
create or replace temp table calibration_metrics as
with part as (
    select
        slice, level, rep,
        sum(n * score) / sum(n) as mean_score,
        sum(a) / sum(n) as success_rate,
        sum(n * score - a) / sum(n) as bias,
        sum(abs(n * score - a)) / sum(n) as ece,
        max(abs(score - a / n)) as max_gap,
        sum(n * (power(score - a / n, 2) - a / n * (1 - a / n) / (n - 1))) filter (n > 1) / sum(n) as l2_squared,
        sum(n * n * a / n * (1 - a / n) / (n - 1)) filter (n > 1) / power(sum(n), 2) as bias_noise,
        coalesce(sum(n) filter (n > 1), 0) / sum(n) as repeated
    from score_reps
    group by slice, level, rep
)
select * exclude (bias_noise), l2_squared - (bias * bias - bias_noise) as curve_squared
from part
