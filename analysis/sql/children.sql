-- Every delegated node that ran, with its verdict y: that of `audit_verdicts`, where audit labels, which nothing trains
-- on, stand in for train labels of their kind (`audit_label` true). idle: the world was left as it was found. length:
-- tokens, else turns.
create or replace temp table audit_children as
select
    n.epoch, n.task_id, n.delegation_id, n.node_id, n.depth, v.value as y,
    coalesce(v.use = 'audit', false) as audit_label,
    coalesce(n.start_digest = n.end_digest, false) as idle, n.policy_version_max as acted,
    greatest(
        case when n.n_prompt_tokens + n.n_completion_tokens > 0 then n.n_prompt_tokens + n.n_completion_tokens
        else n.n_turns end, 1
    ) as length
from nodes as n
left join audit_truth as v on v.node_id = n.node_id and v.value is not null
where n.delegation_id is not null and n.outcome <> 'infra_error'
