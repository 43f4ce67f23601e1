-- The same counts as shares. Pair numbers exist only where a forked delegation is mixed: read them with `mixed`.
select
    complete / nullif(forked, 0) as complete,
    mixed / nullif(forked, 0) as mixed,
    mixed_scored / nullif(mixed, 0) as mixed_scored,
    child_nodes_labelled / nullif(child_nodes_ran, 0) as labelled,
    child_nodes_audited / nullif(child_nodes_ran, 0) as audited,
    rubrics_valid / nullif(rubrics_written, 0) as rubrics_valid,
    rubrics_distinct / nullif(rubrics_valid, 0) as rubrics_distinct,
    scores_valid / nullif(scores_written, 0) as scores_valid,
    trees_infra / nullif(trees, 0) as trees_infra
from audit_coverage
