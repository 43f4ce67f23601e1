-- First-attempt rubrics, numbered (group_id) in the order of their delegations: the number names the branches that can be
-- compared, with the scorer.
create or replace temp table audit_written as
select
    r.rubric_id, r.delegation_id, r.task_id, r.writer, r.writer_version, r.valid, r.prompt_sha256,
    coalesce(t.difficulty, 'unknown') as difficulty, coalesce(t.world, 'unknown') as world,
    (row_number() over (order by r.delegation_id, r.writer, r.rubric_id))::int as group_id
from rubrics as r
left join tasks as t on t.task_id = r.task_id
where r.phase = 'collect' and r.k = 0 and r.attempt = 0
