-- The audited pairs: a successful and a failed branch of one delegation under one rubric and one scorer (view `pairs`).
create or replace temp table audit_pairs as
select
    p.epoch, p.task_id, s.difficulty, p.depth, p.delegation_id, p.rubric_id, p.scorer, p.scorer_version,
    round(p.s1, 9) as s1, round(p.s0, 9) as s0, round(p.s1 - p.s0, 9) as gap
from pairs p
join audit_scored s
    on s.node_id = p.win_node and s.rubric_id = p.rubric_id
    and s.scorer = p.scorer and s.scorer_version = p.scorer_version
where p.s1 is not null and p.s0 is not null and isfinite(p.s1) and isfinite(p.s0)
