-- Resolved configurations of the collect and learn phases of a store, oldest first.
select phase, epoch, any_value(config) as config
from runs
where phase in ('collect', 'learn')
group by phase, epoch, run_id
order by epoch, phase
