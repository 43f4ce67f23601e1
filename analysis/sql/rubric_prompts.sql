-- One hash over the writer prompts of the audited rubrics: the prompts that a calibration result holds for.
select sha256(coalesce(string_agg(distinct r.prompt_sha256, ' ' order by r.prompt_sha256), '')) as sha256
from rubrics as r
where r.rubric_id in (select rubric_id from audit_scored where valid)
