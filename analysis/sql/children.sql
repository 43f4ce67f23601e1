-- Every delegated node that ran, with its verdict: y from train labels; where there is none, from audit labels
-- (`audit_label` true), which nothing trains on. idle: the world was left as it was found. length: tokens, else turns.
create or replace temp table audit_children as
select
    n.epoch, n.task_id, n.tree_id, n.delegation_id, n.node_id, n.depth, n.on_path,
    v.value as y, coalesce(v.scope = 'all', false) as audit_label,
    coalesce(n.start_digest = n.end_digest, false) as idle, n.policy_version_max as acted,
    greatest(
        case when n.n_prompt_tokens + n.n_completion_tokens > 0 then n.n_prompt_tokens + n.n_completion_tokens
        else n.n_turns end, 1
    ) as length
from nodes as n
left join (
    select node_id, max_by(value, scope) as value, max(scope) as scope
    from verdict_scopes
    where value is not null and (scope = 'train' or (select coalesce(bool_or(use = 'audit'), false) from labels))
    group by node_id
) as v on v.node_id = n.node_id
where n.delegation_id is not null and n.outcome <> 'infra_error'
