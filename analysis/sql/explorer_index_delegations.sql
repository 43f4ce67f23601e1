-- One small row per delegation with pairs (a success and a failure of one delegation under one rubric and scorer), made
-- once. A pair is wrong when the failure scored higher, tied when both scored the same; a score that is no number has
-- no order and is left out.
create or replace temp table listed_delegations as
select
    p.delegation_id, split_part(p.delegation_id, '/', 1) as tree_id, p.run_id, p.epoch, p.task_id, p.depth,
    count(*) as n_pairs, count(*) filter (p.gap < 0) as n_wrong, count(*) filter (p.gap = 0) as n_ties,
    avg(p.gap) as mean_gap, any_value(k.goal) as goal
from pairs as p
left join tasks as k using (task_id)
where isfinite(p.gap)
group by all
