-- The nodes of the open tree, each with verdict, score and the share of the tree's leaves in its subtree (null off path).
-- score is the first valid one of view `scored`; n_scores counts all attempts, valid or not.
with
reached as materialized (from leaves),
first_scores as (select distinct on (node_id) node_id, score from scored order by node_id, scorer, scorer_version desc),
attempts as (select node_id, count(*) as n_scores, any_value(error) as score_error from scores group by node_id),
shares as (
    select node_id, count(*) as n_leaves, count(*) / (select count(distinct leaf_id) from reached) as leaf_share
    from reached group by node_id
)
select
    n.node_id, n.parent_id, n.delegation_id, n.branch, n.on_path, n.depth, n.outcome, n.goal, n.n_turns, n.turn_budget,
    n.n_prompt_tokens + n.n_completion_tokens as n_tokens, n.error, v.value as verdict, s.score,
    coalesce(a.n_scores, 0) as n_scores, a.score_error, l.n_leaves, l.leaf_share
from nodes as n
left join verdicts as v using (node_id)
left join first_scores as s using (node_id)
left join attempts as a using (node_id)
left join shares as l using (node_id)
order by n.depth, n.node_id
