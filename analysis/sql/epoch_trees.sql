-- Progress per epoch: trees, success (infrastructure errors apart) and the share of forked delegations that are mixed.
with tree as (
    select
        epoch, count(*) as trees, count(distinct task_id) as tasks,
        count(*) filter (outcome = 'infra_error') as infra_errors,
        avg(success) filter (outcome <> 'infra_error') as success,
        avg(success) filter (outcome <> 'infra_error' and purpose = 'execution') as success_execution,
        avg(n_delegations) as delegations_per_tree, avg(n_turns) as turns_per_tree, avg(n_tokens) as tokens_per_tree
    from trees
    where purpose not in ('eval', 'select', 'warm')
    group by epoch
),
forked as (
    select
        epoch, count(*) as forked, count(*) filter (successes > 0 and successes < labelled) as mixed
    from audit_launches where k > 1 group by epoch
)
select tree.*, coalesce(forked, 0) as forked, coalesce(mixed, 0) as mixed, mixed / nullif(forked, 0) as mixed_share
from tree left join forked using (epoch)
order by epoch
