-- What criteria got in valid audited scores, beside the node's verdict y: sums per criterion, place in its rubric and
-- block. Scores in units of 1e-6, so that sums are whole numbers; passed: at least 0.5.
create or replace temp table audit_item_sums as
with
single as (
    select block, y, item.name as name, position, (item.score * 1e6)::bigint as s, (item.score >= 0.5)::int as passed
    from (
        select
            l.block, l.y::int as y, unnest(g.item_scores) as item, unnest(range(1, len(g.item_scores) + 1)) as position
        from audit_given as g
        join audit_located as l on l.given = g.rowid
        where l.valid
    )
    where isfinite(item.score)
)
select
    name, position, block, count(*) as n, sum(y) as y, sum(s) as s, sum(s * s) as ss, sum(s * y) as sy,
    sum(passed) as passed, sum(passed * y) as passed_y
from single
group by name, position, block
