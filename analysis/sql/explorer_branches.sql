-- The branches of one delegation side by side, branches that never started included.
select
    b.*, n.outcome, n.message, n.goal, n.n_turns, n.turn_budget, n.n_prompt_tokens + n.n_completion_tokens as n_tokens,
    n.start_state, n.end_state, n.end_digest, n.error, v.value as verdict
from branches as b
left join nodes as n using (node_id)
left join verdicts as v using (node_id)
where b.delegation_id = $delegation_id
order by b.branch
