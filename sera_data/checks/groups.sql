-- A group (all samples of one task in one epoch) lies in one shard, and its samples are distinct.
select epoch || '/' || task_id as id, 'the group is spread over ' || count(distinct shard_id) || ' shards' as fault
from fresh.nodes where parent_id is null group by epoch, task_id having count(distinct shard_id) > 1
union all
select epoch || '/' || task_id, 'sample ' || sample || ' has ' || count(*) || ' roots'
from fresh.nodes where parent_id is null group by epoch, task_id, sample having count(*) > 1
order by 1, 2
