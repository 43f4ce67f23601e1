-- Where the time of the phases went: seconds that calls and steps took, summed over calls that ran side by side (so a
-- sum may exceed the elapsed time). policy: turns by role; judge: votes; learn: loading, forward and backward, optimizer.
with
methods as (
    select epoch, string_agg(distinct method, '+' order by method) as method from updates group by epoch
),
kept as (select node_id from nodes where purpose <> 'eval'),
parts as (
    select epoch, 'collect' as phase, 'policy: ' || role as part, count(*) as n, sum(latency_s) as s
    from turns semi join kept using (node_id) where latency_s is not null group by epoch, role
    union all
    select epoch, 'label', kind, count(*), sum(latency_s)
    from labels semi join kept using (node_id) where latency_s is not null group by epoch, kind
    union all
    select epoch, 'learn', unnest(['load', 'forward and backward', 'optimizer step', 'rest']), count(*), unnest([
        sum(timings.load_s), sum(timings.forward_backward_s), sum(timings.step_s),
        sum(timings.total_s - timings.load_s - timings.forward_backward_s - timings.step_s)])
    from updates where timings is not null group by epoch
)
select case grouping(m.method, p.epoch) when 0 then 'epoch' when 1 then 'method' else 'all' end as level,
    m.method, p.epoch, p.phase, p.part, sum(p.n)::bigint as n, sum(p.s) as seconds
from parts as p left join methods as m on m.epoch = p.epoch
group by grouping sets ((m.method, p.epoch, p.phase, p.part), (m.method, p.phase, p.part), (p.phase, p.part))
order by case level when 'all' then 0 when 'method' then 1 else 2 end, m.method, p.epoch, p.phase, p.part
