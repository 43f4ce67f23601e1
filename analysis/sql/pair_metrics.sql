-- Discrimination inside a delegation: does the rubric rank a successful branch above a failed one?
--   pair_accuracy: ties half; pair_accuracy_strict: ties wrong; over pairs. group_*: the same with every group equal.
--   mean_hinge = mean max(0, margin - gap), the loss that rubric training lowers.
create or replace temp table pair_metrics as
select
    c.slice, c.level, w.rep,
    sum(weight * half) / sum(weight * pairs) as pair_accuracy,
    sum(weight * strict) / sum(weight * pairs) as pair_accuracy_strict,
    sum(weight * tie) / sum(weight * pairs) as tie_rate,
    sum(weight * violation) / sum(weight * pairs) as margin_violation,
    sum(weight * hinge) / sum(weight * pairs) as mean_hinge,
    sum(weight * gap) / sum(weight * pairs) as mean_gap,
    sum(weight * group_half) / sum(weight * groups) as auroc_within,
    sum(weight * group_strict) / sum(weight * groups) as group_accuracy_strict,
    sum(weight * group_hinge) / sum(weight * groups) as group_hinge
from pair_cells c
join boot_weights w using (task_id)
group by c.slice, c.level, w.rep
