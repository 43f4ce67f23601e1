-- Rank agreement of score and success over all scored nodes, from counts per distinct score (success is 0 or 1).
--   auroc = share of success x failure pairs in the right order, ties half
--   spearman = Pearson correlation of mid-ranks     kendall = tau-b
create or replace temp table rank_metrics as
with cell as (
    select
        slice, level, rep, n, a as p, n - a as m,
        sum(n - a) over w - (n - a) as m_below,
        sum(n) over w - n + (n + 1) / 2 as mid_rank
    from score_reps
    window w as (partition by slice, level, rep order by score)
),
total as (
    select
        slice, level, rep,
        sum(n) as n, sum(p) as p, sum(m) as m, sum(n * n) as n_squares,
        sum(p * m_below) as wins, sum(p * m) as ties,
        sum(n * mid_rank) as r, sum(n * mid_rank * mid_rank) as rr, sum(p * mid_rank) as rp
    from cell
    group by slice, level, rep
)
select
    slice, level, rep,
    (wins + ties / 2) / nullif(p * m, 0) as auroc,
    (n * rp - r * p) / nullif(sqrt((n * rr - r * r) * p * m), 0) as spearman,
    (2 * wins + ties - p * m) / nullif(sqrt((n * n - n_squares) / 2 * p * m), 0) as kendall
from total
