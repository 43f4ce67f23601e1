-- One row per tree. n_nodes, n_turns, n_tokens, max_depth and n_delegations count what is on the path, so that a forked
-- tree compares with a plain one; n_all_nodes and n_all_tokens count the other branches too. success is the root's
-- train verdict, null without one.
with
sums as (
    select
        tree_id,
        count(*) filter (on_path) as n_nodes,
        coalesce(sum(n_turns) filter (on_path), 0)::bigint as n_turns,
        coalesce(sum(n_prompt_tokens + n_completion_tokens) filter (on_path), 0)::bigint as n_tokens,
        max(depth) filter (on_path) as max_depth,
        count(*) as n_all_nodes,
        sum(n_prompt_tokens + n_completion_tokens)::bigint as n_all_tokens
    from nodes
    group by tree_id
),
launches as (
    select b.tree_id, count(*) as n_delegations
    from branches as b
    join factual as p on p.node_id = b.parent_id
    where b.committed
    group by b.tree_id
)
select
    r.run_id,
    r.epoch,
    r.task_id,
    r.sample,
    r.tree_id,
    t.difficulty,
    r.purpose,
    r.outcome,
    v.value as success,
    s.n_nodes,
    s.n_turns,
    s.n_tokens,
    s.max_depth,
    coalesce(l.n_delegations, 0) as n_delegations,
    s.n_all_nodes,
    s.n_all_tokens
from nodes as r
join sums as s on s.tree_id = r.tree_id
left join launches as l on l.tree_id = r.tree_id
left join tasks as t on t.task_id = r.task_id
left join verdicts as v on v.node_id = r.node_id
where r.parent_id is null
