-- Every success paired with every failure among the branches of one delegation, under one rubric and one scorer.
-- s1 is the score of the success, s0 that of the failure; gap = s1 - s0, rounded so that 0.7 - 0.5 is 0.2.
select
    a.run_id,
    a.epoch,
    a.task_id,
    a.delegation_id,
    a.rubric_id,
    a.scorer,
    a.scorer_version,
    a.depth,
    a.node_id as win_node,
    b.node_id as lose_node,
    a.score as s1,
    b.score as s0,
    round(a.score - b.score, 12) as gap
from scored as a
join scored as b
    on b.delegation_id = a.delegation_id
    and b.rubric_id = a.rubric_id
    and b.scorer = a.scorer
    and b.scorer_version = a.scorer_version
where a.y = 1 and b.y = 0
