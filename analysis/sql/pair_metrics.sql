-- Discrimination inside a delegation: does the rubric rank a successful branch above a failed one?
--   pair_accuracy: ties half; pair_accuracy_strict: ties wrong; over pairs. group_*: the same with every group equal.
--   mean_hinge = mean max(0, margin - gap), the loss that rubric training lowers.
--   auroc_within, spearman_within, kendall_within: mean over mixed groups (a group without any order counts 0.5, 0, 0)
create or replace temp table pair_metrics as
with total as (
    pivot (select slice, level, rep, name, value from boot_sums where family = 'pair')
    on name in (
        'pairs', 'halves', 'strict', 'tie', 'violation', 'hinge', 'gap', 'groups', 'group_half', 'group_strict',
        'group_hinge', 'group_spearman', 'group_kendall'
    )
    using sum(value)
)
select
    slice, level, rep,
    coalesce(halves, 0) / 2 / pairs as pair_accuracy,
    coalesce(strict, 0) / pairs as pair_accuracy_strict,
    coalesce(tie, 0) / pairs as tie_rate,
    coalesce(violation, 0) / pairs as margin_violation,
    coalesce(hinge, 0) / 1e9 / pairs as mean_hinge,
    coalesce(gap, 0) / 1e9 / pairs as mean_gap,
    coalesce(group_half, 0) / 1e9 / groups as auroc_within,
    coalesce(group_strict, 0) / 1e9 / groups as group_accuracy_strict,
    coalesce(group_hinge, 0) / 1e9 / groups as group_hinge,
    coalesce(group_spearman, 0) / 1e9 / groups as spearman_within,
    coalesce(group_kendall, 0) / 1e9 / groups as kendall_within
from total
where pairs > 0
