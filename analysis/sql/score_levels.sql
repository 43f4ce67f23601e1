-- Which scores the replicates tell apart: every distinct score when there are at most $most_levels, else $coarse_levels
-- equal-mass bins that never split ties (only intervals are made from bins; estimates use distinct scores).
create or replace temp table score_levels as
with
cell as (
    select score, count(*) as n from audit_scored group by score
),
placed as (
    select
        score,
        (sum(n) over (order by score) - n / 2) / sum(n) over () as q,
        dense_rank() over (order by score) - 1 as place,
        count(*) over () as levels
    from cell
)
select
    score,
    levels <= $most_levels as exact,
    (case when levels <= $most_levels then place else least(floor(q * $coarse_levels), $coarse_levels - 1) end)::int as key
from placed
