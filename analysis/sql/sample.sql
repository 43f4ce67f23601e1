-- The audited rows: the usable scores of nodes with a verdict (`valid` true), and the nodes under a rubric that lack a
-- usable score (`valid` false), which get the worst one: 1 - verdict. node: row of audit_children; given: row of
-- audit_given; by_whom: number of the scorer.
create or replace temp table audit_scored as
with
met as (
    select
        c.rowid as node, c.epoch, c.delegation_id, c.depth, c.y, c.audit_label, c.idle, c.acted, c.length,
        g.rowid as given, g.group_id, g.by_whom, g.score, g.weighted_score, g.node_id is not null as valid
    from audit_children as c
    left join audit_given as g on g.node_id = c.node_id
    where c.y is not null
),
first_rubric as (
    select delegation_id, min(group_id) as group_id from audit_written group by delegation_id
),
missing as (
    select m.* exclude (group_id), f.group_id
    from met as m
    join first_rubric as f on f.delegation_id = m.delegation_id
    where not m.valid
),
usual as (
    select group_id, min(by_whom) as by_whom
    from audit_given
    where group_id in (select group_id from missing)
    group by group_id
)
select * exclude (delegation_id) from met where valid
union all by name
select m.* exclude (delegation_id, by_whom, score), coalesce(u.by_whom, 0) as by_whom, 1 - m.y as score
from missing as m
left join usual as u on u.group_id = m.group_id
