-- Every shard says who wrote it: exactly one row of `runs`.
with
shards as (
    select distinct shard_id from (
        select shard_id from fresh.tasks union select shard_id from fresh.nodes union select shard_id from fresh.turns
        union select shard_id from fresh.rubrics union select shard_id from fresh.branches
        union select shard_id from fresh.labels union select shard_id from fresh.scores
        union select shard_id from fresh.updates union select shard_id from fresh.evals
        union select shard_id from fresh.logprobs
    )
)
select s.shard_id, 'the shard has no row in runs'
from shards as s
anti join fresh.runs as r on r.shard_id = s.shard_id
order by 1
