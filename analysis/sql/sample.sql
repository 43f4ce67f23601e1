-- The audited rows: scored nodes that have a verdict and a finite score, from the view `scored`.
-- Scores are rounded to 9 digits, so that equal scores compare equal whatever arithmetic made them.
create or replace temp table audit_scored as
select
    epoch, task_id, coalesce(difficulty, 'unknown') as difficulty, tree_id, delegation_id, node_id, depth, on_path,
    rubric_id, writer, writer_version, scorer, scorer_version, round(score, 9) as score, y
from scored
where score is not null and isfinite(score) and y is not null
