-- Signs that scores are made of something other than the work, per replicate.
--   label_leak: mean (final score - weighted item scores) of successes minus that of failures: above 0 the final score
--     knows more about success than its own criteria do
--   length_partial: correlation of score and log length with the verdict held fixed (pooled within verdicts)
--   idle_score: mean score of failures that changed nothing; top_share: share of scores of at least 0.95
--   self_preference: mean (score - verdict) where the scorer's policy version acted itself, minus elsewhere
create or replace temp table leak_metrics as
with
wide as (
    pivot (select slice, level, rep, name, value from boot_sums where family = 'leak')
    on name in (
        'residual_y_n', 'residual_y', 'residual_n_n', 'residual_n', 'n1', 's1', 'ss1', 'l1', 'll1', 'sl1', 'n0', 's0',
        'ss0', 'l0', 'll0', 'sl0', 'idle_n', 'idle_s', 'own_n', 'own_error', 'other_n', 'other_error', 'top'
    )
    using sum(value)
),
filled as (
    select columns(* exclude (slice, level, rep)).coalesce(0), slice, level, rep from wide
),
within_verdict as (
    select
        *,
        coalesce(ss1 - s1 * s1 / nullif(n1, 0), 0) + coalesce(ss0 - s0 * s0 / nullif(n0, 0), 0) as vs,
        coalesce(ll1 - l1 * l1 / nullif(n1, 0), 0) + coalesce(ll0 - l0 * l0 / nullif(n0, 0), 0) as vl,
        coalesce(sl1 - s1 * l1 / nullif(n1, 0), 0) + coalesce(sl0 - s0 * l0 / nullif(n0, 0), 0) as csl
    from filled
)
select
    slice, level, rep,
    (residual_y / nullif(residual_y_n, 0) - residual_n / nullif(residual_n_n, 0)) / 1e6 as label_leak,
    case when vs > 1e3 * (n0 + n1) and vl > 1e3 * (n0 + n1) then csl / sqrt(vs) / sqrt(vl) end as length_partial,
    idle_s / nullif(idle_n, 0) / 1e6 as idle_score,
    top / nullif(n0 + n1, 0) as top_share,
    (own_error / nullif(own_n, 0) - other_error / nullif(other_n, 0)) / 1e6 as self_preference
from within_verdict
