-- Drift on the same tasks from one epoch to the next: change of mean score, of success, and of their difference.
--   drift = mean over tasks of (score change - success change): above 0 scores rise faster than success does
create or replace temp table drift_metrics as
select
    slice, level, rep,
    d_score / changes / 1e9 as score_change, d_success / changes / 1e9 as success_change,
    (d_score - d_success) / changes / 1e9 as drift
from (
    select
        slice, level, rep, nullif(sum(value) filter (name = 'changes'), 0) as changes,
        sum(value) filter (name = 'd_score') as d_score, sum(value) filter (name = 'd_success') as d_success
    from boot_sums
    where family = 'drift'
    group by slice, level, rep
)
