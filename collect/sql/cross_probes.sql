-- The mixed delegations of a store, a fixed draw of $limit of them: branches that ran, with their verdicts.
with judged as (
    select b.delegation_id, b.tree_id, b.task_id, b.node_id, b.branch, v.value as y
    from branches as b
    join nodes as n on n.node_id = b.node_id
    join audit_verdicts as v on v.node_id = b.node_id
    where b.k > 1 and n.outcome <> 'infra_error' and v.value is not null
),
mixed as (
    select delegation_id
    from judged
    group by delegation_id
    having max(y) > min(y)
    order by md5(delegation_id)
    limit $limit
)
select j.* from judged as j join mixed using (delegation_id) order by j.tree_id, j.delegation_id, j.branch
