-- Tasks that are held out of training: a share of them, drawn by their ids alone, the same in every store and epoch.
select distinct task_id
from nodes
where parent_id is null and md5_number_lower(concat('hold-out:', task_id)) / 18446744073709551616.0 < $share
order by task_id
