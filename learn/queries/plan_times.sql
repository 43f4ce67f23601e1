-- One row per collect epoch and learn phase: seconds from the start of its first unit to the end of its last, processes
-- side by side, accelerators of their hosts; for collect phases completion tokens, and those of the middle half of that
-- time, in which all slots are busy: the start and the last stragglers are not.
with
spans as (
    select epoch, phase, run_id, min(started_at) as s, max(ended_at) as e,
        count(distinct concat_ws(' ', host, pid)) as processes,
        max(coalesce(json_array_length(hardware, '$.accelerators'), 0)) as accelerators
    from runs
    where phase in ('collect', 'learn') and started_at is not null and ended_at is not null
    group by all
),
ends as (
    select t.epoch, t.run_id, t.started_at + to_microseconds((t.latency_s * 1e6)::bigint) as at, len(t.completion_ids) as n
    from turns as t where t.started_at is not null and t.latency_s is not null
)
select s.phase, s.epoch, date_diff('microsecond', s.s, s.e) / 1e6 as elapsed_s, s.processes, s.accelerators,
    coalesce(sum(x.n), 0)::double as tokens,
    coalesce(sum(x.n) filter (where x.at >= s.s + (s.e - s.s) * 0.25 and x.at < s.s + (s.e - s.s) * 0.75), 0)::double
        as middle_tokens
from spans as s
left join ends as x on s.phase = 'collect' and x.epoch = s.epoch and x.run_id = s.run_id
group by all
order by s.phase, s.epoch
