-- Which shards wrote evals rows, and for which evaluation.
select distinct run_id, epoch, shard_id from evals order by epoch, shard_id
