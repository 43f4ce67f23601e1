-- The audited pairs: a successful and a failed branch of one delegation under one rubric and one scorer, as in the view
-- `pairs`. A pair is valid when both scores are; slices other than 'worst' read valid pairs only.
create or replace temp table audit_pairs as
select
    a.block, a.epoch, a.difficulty, a.world, a.length_tenth, a.depth, a.group_id, a.scorer, a.scorer_version,
    a.valid and b.valid as valid, round(a.score - b.score, 9) as gap
from audit_located as a
join audit_located as b
    on b.group_id = a.group_id and b.scorer = a.scorer and b.scorer_version = a.scorer_version
where a.y = 1 and b.y = 0
