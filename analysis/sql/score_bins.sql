-- Equal-mass bins that never split ties: a score goes to the bin of its mid-rank quantile, ceil(n^(1/3)) bins. Replicates
-- use the bins of the data on their own levels (rep -1).
create or replace temp table score_bins as
with cell as (
    select slice, level, rep, key, score, n from score_reps where rep <= 0
),
placed as (
    select
        slice, level, rep, key,
        (sum(n) over (partition by slice, level, rep order by score) - n / 2)
            / sum(n) over (partition by slice, level, rep) as q,
        ceil(round(cbrt(sum(n) over (partition by slice, level, rep)), 9)) as bins
    from cell
)
select slice, level, rep = 0 as exact, key, least(floor(q * bins), bins - 1)::int as bin
from placed
