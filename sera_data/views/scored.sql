-- One row per valid first-attempt score (attempt 0) under a valid first rubric (k 0, attempt 0), phase collect, of
-- nodes on and off path. y is the train verdict, null without one. k is the delegation's planned number of branches.
-- n_tokens = prompt deltas + completions of the node's act turns.
select
    s.run_id,
    s.epoch,
    s.task_id,
    t.difficulty,
    s.tree_id,
    n.sample,
    n.purpose,
    s.delegation_id,
    n.branch,
    s.node_id,
    n.depth,
    n.on_path,
    b.committed,
    b.k,
    s.rubric_id,
    r.writer,
    r.writer_version,
    s.scorer,
    s.scorer_version,
    s.phase,
    s.final_score as score,
    s.success as success_flag,
    s.weighted_score,
    v.value as y,
    n.n_turns,
    n.n_prompt_tokens + n.n_completion_tokens as n_tokens,
    n.outcome
from scores as s
join rubrics as r on r.rubric_id = s.rubric_id
join nodes as n on n.node_id = s.node_id
left join branches as b on b.delegation_id = n.delegation_id and b.branch = n.branch
left join tasks as t on t.task_id = s.task_id
left join verdicts as v on v.node_id = s.node_id
where s.valid and s.attempt = 0 and s.phase = 'collect' and r.valid and r.k = 0 and r.attempt = 0 and r.phase = 'collect'
