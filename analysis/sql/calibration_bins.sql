-- The same errors on equal-mass bins (score_bins), for scorers whose scores hardly repeat.
create or replace temp table calibration_bin_metrics as
with bin as (
    select r.slice, r.level, r.rep, b.bin, sum(n) as n, sum(a) as a, sum(n * score) / sum(n) as score
    from score_reps as r
    join score_bins as b on b.slice = r.slice and b.level = r.level and b.key = r.key and b.exact = (r.rep = 0)
    group by r.slice, r.level, r.rep, b.bin
),
part as (
    select
        slice, level, rep,
        sum(abs(n * score - a)) / sum(n) as ece_bins, sum(n * score - a) / sum(n) as bias,
        sum(n * (power(score - a / n, 2) - a / n * (1 - a / n) / (n - 1))) filter (n > 1) / sum(n) as l2_squared_bins,
        sum(n * n * a / n * (1 - a / n) / (n - 1)) filter (n > 1) / power(sum(n), 2) as bias_noise
    from bin
    group by slice, level, rep
)
select * exclude (bias, bias_noise), l2_squared_bins - (bias * bias - bias_noise) as curve_squared_bins
from part
