-- The trees with turns that are owed, in the order of the files, with how many turns these are and how many tokens a
-- forward pass over them sees: a node's acts up to the last owed one are read once, other turns stand alone.
with read_turns as (
    select t.epoch, t.tree_id, len(t.prompt_ids) + len(t.completion_ids) as n_tokens
    from turns as t
    where t.turn_id in (select turn_id from owed where kind <> 'act')
    union all
    select t.epoch, t.tree_id, len(t.prompt_ids) + len(t.completion_ids)
    from turns as t
    join (select node_id, max(turn_id) as last from owed where kind = 'act' group by node_id) as l
        on l.node_id = t.node_id
    where t.kind = 'act' and t.turn_id <= l.last
)

select r.epoch, r.tree_id, o.n_turns, r.n_tokens
from (select epoch, tree_id, sum(n_tokens)::bigint as n_tokens from read_turns group by epoch, tree_id) as r
join (select tree_id, count(*) as n_turns from owed group by tree_id) as o on o.tree_id = r.tree_id
order by r.epoch, r.tree_id
