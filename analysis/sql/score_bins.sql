-- Equal-mass bins that never split ties: a score goes to the bin of its mid-rank quantile, ceil(n^(1/3)) bins.
create or replace temp table score_bins as
with cell as (
    select slice, level, score, n from score_reps where rep = 0
),
placed as (
    select
        slice, level, score,
        (sum(n) over (partition by slice, level order by score) - n / 2) / sum(n) over (partition by slice, level) as q,
        ceil(cbrt(sum(n) over (partition by slice, level))) as bins
    from cell
)
select slice, level, score, least(floor(q * bins), bins - 1)::int as bin
from placed
