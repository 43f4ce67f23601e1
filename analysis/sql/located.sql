-- The audited rows with their bootstrap block and score level.
create or replace temp table audit_located as
select
    r.valid, r.task_id, r.depth, r.difficulty, r.epoch, r.world, r.length_tenth, r.group_id, r.scorer, r.scorer_version,
    r.score, r.y, r.weighted_score, r.item_scores, r.length, r.idle, r.acted, b.block, l.key, l.exact
from audit_scored as r
join boot_blocks as b on b.task_id = r.task_id
join score_levels as l on l.score = r.score
