-- The audited pairs: a successful and a failed branch of one delegation under one rubric and one scorer, as in the view
-- `pairs`. A pair is valid when both scores are; slices other than 'worst' read valid pairs only.
create or replace temp table audit_pairs as
select a.group_id, a.by_whom, a.valid and b.valid as valid, round(a.score - b.score, 9) as gap
from audit_scored as a
join audit_scored as b on b.group_id = a.group_id and b.by_whom = a.by_whom
where a.y = 1 and b.y = 0
