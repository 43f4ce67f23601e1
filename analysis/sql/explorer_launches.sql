-- The delegations of the open tree with how their branches were ranked; n_pairs is null without a pair.
with ranked as (
    select delegation_id, count(*) as n_pairs, count(*) filter (gap < 0) as n_wrong, count(*) filter (gap = 0) as n_ties
    from pairs where isfinite(gap) group by delegation_id
)
select
    b.delegation_id, any_value(b.parent_id) as parent_id, any_value(b.turn_id) as turn_id, any_value(b.launch) as launch,
    any_value(b.depth) as depth, max(b.k) as k, count(b.node_id) as n_started, bool_and(b.complete) as complete,
    any_value(r.n_pairs) as n_pairs, any_value(r.n_wrong) as n_wrong, any_value(r.n_ties) as n_ties
from branches as b left join ranked as r using (delegation_id)
group by b.delegation_id
order by any_value(b.turn_id), any_value(b.launch)
