-- The learn phases of a run in the order in which they were run, with the config and the code that they ran with.
select r.shard_id, r.epoch, r.config, r.config_hash, r.code_version, min(u.version_in) as version
from runs as r
join updates as u on u.run_id = r.run_id and u.shard_id = r.shard_id
where r.phase = 'learn' and r.run_id = $run_id
group by all
order by version, r.epoch, r.shard_id
