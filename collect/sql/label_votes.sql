-- Votes that nodes have, per source, version and use: how many rows, how many valid ones, the highest attempt.
select
    node_id, source, version, use,
    count(*) as votes,
    count(*) filter (valid) as valid,
    max(attempt) as attempt
from labels
where epoch in (select unnest($epochs::int[])) and kind = $kind
group by node_id, source, version, use
