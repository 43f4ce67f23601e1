-- The same errors on equal-mass bins (score_bins), for scorers whose scores hardly repeat.
create or replace temp table calibration_bin_metrics as
with bin as (
    select slice, level, rep, bin, sum(n) as n, sum(a) as a, sum(n * score) / sum(n) as score
    from score_reps
    join score_bins using (slice, level, score)
    group by slice, level, rep, bin
)
select
    slice, level, rep,
    sum(abs(n * score - a)) / sum(n) as ece_bins,
    sum(n * (power(score - a / n, 2) - a / n * (1 - a / n) / (n - 1))) filter (n > 1) / sum(n) as l2_squared_bins
from bin
group by slice, level, rep
