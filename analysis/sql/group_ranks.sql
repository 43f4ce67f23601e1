-- Rank agreement of score and success inside each mixed group of valid scores, from its counts of equal scores.
--   U = right pairs + ties / 2, p successes, m failures, n = p + m, t = nodes that share one score
--   spearman (correlation of mid-ranks) = (U - p m / 2) / sqrt(p m / n (n (n^2 - 1) - sum(t^3 - t)) / 12)
--   kendall (tau-b) = (right - wrong) / sqrt((n (n - 1) / 2 - sum t (t - 1) / 2) p m)
-- A group whose scores are all equal has no order to agree with: null here, counted as 0 in the mean.
create or replace temp table audit_group_ranks as
with
level as (
    select group_id, by_whom, score, count(*) as t, sum(y)::bigint as wins
    from audit_scored
    where valid
    group by group_id, by_whom, score
),
shape as (
    select
        group_id, by_whom, sum(t)::double as n, sum(wins)::double as p,
        sum(t - wins)::double as m, sum(t * t * t - t)::double as cubes, sum(t * (t - 1) / 2)::double as tied
    from level
    group by group_id, by_whom
    having sum(wins) > 0 and sum(t - wins) > 0
),
won as (
    select
        group_id, by_whom,
        count(*) filter (gap > 1e-9) as correct, count(*) filter (gap < -1e-9) as wrong
    from audit_pairs
    where valid
    group by group_id, by_whom
)
select
    group_id, by_whom,
    (correct - wrong) / 2 / nullif(sqrt(p * m / n * (n * (n * n - 1) - cubes) / 12), 0) as spearman,
    (correct - wrong) / nullif(sqrt((n * (n - 1) / 2 - tied) * p * m), 0) as kendall
from shape
join won using (group_id, by_whom)
