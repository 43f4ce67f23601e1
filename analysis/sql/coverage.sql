-- What the audit speaks of, from trees down to usable pairs. One row of counts.
create or replace temp table audit_coverage as
with launched as (
    select
        delegation_id, max(k) as k, bool_and(complete) as complete, count(*) as branches,
        count(v.value) as labelled, sum(v.value) as successes
    from branches b
    left join verdicts v using (node_id)
    group by delegation_id
),
child as (
    select n.node_id, n.outcome <> 'infra_error' as ran, v.value is not null as labelled,
           exists (select 1 from audit_scored s where s.node_id = n.node_id) as audited,
           exists (select 1 from scored s where s.node_id = n.node_id) as scored
    from nodes n
    left join verdicts v using (node_id)
    where n.delegation_id is not null
)
select
    (select count(*) from trees) as trees,
    (select count(*) from trees where outcome = 'infra_error') as trees_infra,
    (select count(distinct task_id) from trees) as tasks,
    (select count(*) from launched) as delegations,
    (select count(*) from launched where k > 1) as forked,
    (select count(*) from launched where k > 1 and complete and branches = k) as complete,
    (select count(*) from launched where k > 1 and successes > 0 and successes < labelled) as mixed,
    (select count(*) from launched where k > 1 and labelled > 0 and successes = labelled) as all_succeeded,
    (select count(*) from launched where k > 1 and labelled > 0 and successes = 0) as all_failed,
    (select count(distinct delegation_id) from audit_pairs) as mixed_scored,
    (select count(*) from audit_pairs) as pairs,
    (select count(*) from child) as child_nodes,
    (select count(*) from child where ran) as child_nodes_ran,
    (select count(*) from child where ran and labelled) as child_nodes_labelled,
    (select count(*) from child where scored) as child_nodes_scored,
    (select count(*) from child where audited) as child_nodes_audited,
    (select count(*) from audit_scored) as audited_scores,
    (select count(distinct task_id) from audit_scored) as audited_tasks,
    (select count(distinct score) from audit_scored) as distinct_scores,
    (select count(*) from rubrics where phase = 'collect' and attempt = 0) as rubrics_written,
    (select count(*) from rubrics where phase = 'collect' and attempt = 0 and valid) as rubrics_valid,
    (select count(distinct rubric_sha256) from rubrics where phase = 'collect' and attempt = 0 and valid)
        as rubrics_distinct,
    (select count(*) from scores where phase = 'collect' and attempt = 0) as scores_written,
    (select count(*) from scores where phase = 'collect' and attempt = 0 and valid) as scores_valid
