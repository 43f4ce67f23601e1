-- The configuration that an evaluation was played with, as its shards stored it.
select distinct config from runs where run_id = $run_id and epoch = $epoch order by config limit 1
