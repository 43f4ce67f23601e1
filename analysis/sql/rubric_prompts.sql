-- One hash over the writer prompts of the audited rubrics: the prompts that a calibration result holds for.
select sha256(coalesce(string_agg(distinct prompt_sha256, ' ' order by prompt_sha256), '')) as sha256
from audit_written
where group_id in (select group_id from audit_scored where valid)
