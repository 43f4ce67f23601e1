-- One row per criterion of a valid audited score: what it got (`passed`: at least 0.5), beside the node's verdict.
create or replace temp table audit_items as
select block, row, y, item.name as name, position, item.score as score
from (
    select
        block, row_number() over () as row, y, unnest(item_scores) as item,
        unnest(range(1, len(item_scores) + 1)) as position
    from audit_located
    where valid
)
where isfinite(item.score)
