-- One row per node and rater (a judge or people, by source and version): its votes beside the program's newest verdict.
-- value: majority of the valid votes, null at a tie or without one; y: the program's verdict, null without one.
create or replace temp table audit_judged as
with
votes as (
    select
        node_id, task_id, kind, source, version,
        count(*) as votes,
        count(*) filter (valid) as valid,
        coalesce(sum(value) filter (valid), 0) as yes
    from labels
    where kind <> 'program'
    group by node_id, task_id, kind, source, version
)
select
    v.kind, v.source, v.version, v.node_id, v.task_id, n.epoch, n.depth,
    coalesce(t.difficulty, 'unknown') as difficulty,
    v.votes, v.valid, v.yes,
    case when 2 * v.yes > v.valid then 1.0 when 2 * v.yes < v.valid then 0.0 end as value,
    p.value as y
from votes as v
join nodes as n on n.node_id = v.node_id
left join tasks as t on t.task_id = v.task_id
left join audit_truth as p on p.node_id = v.node_id and p.kind = 'program'
