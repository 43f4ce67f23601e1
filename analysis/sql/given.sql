-- Usable scores of the view `scored`: valid, first attempt, phase collect, finite, under a valid first rubric. Scores are
-- rounded to 9 digits, so that equal scores compare equal whatever arithmetic made them.
create or replace temp table audit_given as
select s.node_id, w.group_id, b.by_whom, round(s.final_score, 9) as score, s.weighted_score, s.item_scores
from scores as s
join audit_written as w on w.rubric_id = s.rubric_id and w.valid
join audit_scorers as b on b.scorer = s.scorer and b.scorer_version = s.scorer_version
where s.valid and s.attempt = 0 and s.phase = 'collect' and isfinite(s.final_score)
