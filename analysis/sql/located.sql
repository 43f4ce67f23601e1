-- The audited rows with what their group shares, its task and bootstrap block, their scorer's version and score level.
create or replace temp table audit_located as
select
    r.valid, b.task, g.depth, g.difficulty, g.epoch, g.world, g.length_tenth, r.group_id, r.by_whom, s.scorer_version,
    r.score, r.y, r.weighted_score, r.given, r.length, r.idle, r.acted, b.block, l.key, l.exact
from audit_scored as r
join audit_groups as g on g.group_id = r.group_id
join boot_blocks as b on b.task_id = g.task_id
join audit_scorers as s on s.by_whom = r.by_whom
join score_levels as l on l.score = r.score
