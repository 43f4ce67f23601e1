-- The act turns of the agents to export, with what a chat needs; ordered by agent and step.
-- $which: successful = agents on the path of trees whose root succeeded; factual = all on the path; branches = every
-- child of a delegation with a verdict, and every root with one; all = everything. Infrastructure errors never.
with chosen as (
    select n.*, r.success as tree_success, v.value as success
    from nodes as n
    left join trees as r on r.tree_id = n.tree_id
    left join verdicts as v on v.node_id = n.node_id
    where n.outcome <> 'infra_error' and case $which
        when 'successful' then n.on_path and r.success = 1
        when 'factual' then n.on_path
        when 'branches' then v.value is not null
        else true
    end
)
select
    n.node_id, n.tree_id, n.task_id, n.run_id, n.epoch, n.parent_id, n.delegation_id, n.branch, n.depth, n.purpose,
    n.goal, n.context, n.outcome, n.success, n.tree_success, k.world, k.split, k.difficulty, k.upstream_id,
    t.turn_id, t.step, t.base_turn, t.policy, t.prompt_text, t.prompt_ids, t.completion_ids, t.text, t.action,
    t.observation, t.ok
from chosen as n
join turns as t on t.node_id = n.node_id and t.kind = 'act'
left join tasks as k on k.task_id = n.task_id
order by n.node_id, t.step
