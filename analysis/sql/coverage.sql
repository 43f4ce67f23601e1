-- What the audit speaks of, from trees down to usable pairs. One row of counts.
create or replace temp table audit_coverage as
with
child as (
    select count(*) as ran, count(y) as labelled from audit_children
),
root as (
    select count(*) as trees, count(*) filter (outcome = 'infra_error') as infra, count(distinct task_id) as tasks
    from nodes
    where parent_id is null
)
select
    root.trees,
    root.infra as trees_infra,
    root.tasks,
    (select count(*) from audit_launches) as delegations,
    (select count(*) from audit_launches where k > 1) as forked,
    (select count(*) from audit_launches where k > 1 and complete) as complete,
    (select count(*) from audit_launches where k > 1 and successes > 0 and successes < labelled) as mixed,
    (select count(*) from audit_launches where k > 1 and labelled > 0 and successes = labelled) as all_succeeded,
    (select count(*) from audit_launches where k > 1 and labelled > 0 and successes = 0) as all_failed,
    (select count(distinct group_id) from audit_pairs where valid) as mixed_scored,
    (select count(*) from audit_pairs where valid) as pairs,
    (select count(*) from nodes where delegation_id is not null) as child_nodes,
    child.ran as child_nodes_ran,
    child.labelled as child_nodes_labelled,
    (select count(distinct node) from audit_scored where valid) as child_nodes_audited,
    (select count(*) from audit_scored where valid) as audited_scores,
    (select count(*) from audit_scored where not valid) as unusable_scores,
    (select count(*) from audit_scored where valid and audit_label) as audit_labels,
    (select count(distinct task) from audit_located where valid) as audited_tasks,
    (select count(distinct score) from audit_scored where valid) as distinct_scores,
    (select count(*) from rubrics where phase = 'collect' and attempt = 0) as rubrics_written,
    (select count(*) from rubrics where phase = 'collect' and attempt = 0 and valid) as rubrics_valid,
    (select count(distinct rubric_sha256) from rubrics where phase = 'collect' and attempt = 0 and valid)
        as rubrics_distinct,
    (select count(*) from scores where phase = 'collect' and attempt = 0) as scores_written,
    (select count(*) from scores where phase = 'collect' and attempt = 0 and valid) as scores_valid
from child, root
