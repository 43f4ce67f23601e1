-- The rows that one learn phase wrote, in order.
select * from updates where run_id = $run_id and shard_id = $shard order by version_out, update, attempt
