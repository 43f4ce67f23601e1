-- The audited rows with their bootstrap block and score level.
create or replace temp table audit_located as
select r.*, b.block, l.key, l.exact
from audit_scored as r
join boot_blocks as b on b.task_id = r.task_id
join score_levels as l on l.score = r.score
