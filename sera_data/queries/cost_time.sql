-- How long a method ran, phase by phase: the SERA paper's Table 7 as a query.
-- One row per level ('all', 'method', 'epoch') and phase. elapsed_s is the time in which at least one work unit of the
-- phase was running, so that units side by side count once and pauses not at all; the phase 'together' is the same over
-- all phases. accelerators is the largest number that a host of the phase recorded (what it has, used or not), accelerator_hours = elapsed_s x
-- accelerators x hosts / 3600. Times are those that the writers recorded; units without them count nothing.
with
methods as (
    select epoch, string_agg(distinct method, '+' order by method) as method from updates group by epoch
),
spans as (
    select r.epoch, m.method, unnest([r.phase, 'together']) as phase, r.host, r.started_at, r.ended_at,
        coalesce(json_array_length(r.hardware, '$.accelerators'), 0)::integer as gpus
    from runs as r left join methods as m on m.epoch = r.epoch
    where r.phase <> 'eval' and r.started_at is not null and r.ended_at is not null
),
levelled as (
    select 'all' as level, null::varchar as by_method, null::integer as by_epoch, * from spans
    union all
    select 'method', method, null, * from spans
    union all
    select 'epoch', method, epoch, * from spans
),
marked as (
    select *, max(ended_at) over (
        partition by level, by_method, by_epoch, phase order by started_at, ended_at
        rows between unbounded preceding and 1 preceding
    ) as busy_until
    from levelled
),
islands as (
    select *, sum((busy_until is null or started_at > busy_until)::int) over (
        partition by level, by_method, by_epoch, phase order by started_at, ended_at rows unbounded preceding
    ) as island
    from marked
),
lengths as (
    select level, by_method, by_epoch, phase, island, date_diff('microsecond', min(started_at), max(ended_at)) / 1e6 as s
    from islands group by all
),
hosts as (
    select level, by_method, by_epoch, phase, count(distinct host) as n_hosts, max(gpus) as accelerators
    from levelled group by all
),
played as (
    select 'all' as level, null::varchar as by_method, null::integer as by_epoch, count(*) as n_trees,
        count(*) filter (where success = 1) as n_success
    from trees where purpose <> 'eval'
    union all
    select 'method', m.method, null, count(*), count(*) filter (where success = 1)
    from trees as t left join methods as m on m.epoch = t.epoch where purpose <> 'eval' group by m.method
    union all
    select 'epoch', m.method, t.epoch, count(*), count(*) filter (where success = 1)
    from trees as t left join methods as m on m.epoch = t.epoch where purpose <> 'eval' group by m.method, t.epoch
)
select l.level, l.by_method as method, l.by_epoch as epoch, l.phase, sum(l.s) as elapsed_s,
    any_value(h.n_hosts) as n_hosts, any_value(h.accelerators)::integer as accelerators,
    sum(l.s) * any_value(h.accelerators * greatest(h.n_hosts, 1)) / 3600 as accelerator_hours,
    sum(l.s) / nullif(any_value(p.n_trees), 0) as s_per_tree,
    sum(l.s) / nullif(any_value(p.n_success), 0) as s_per_success
from lengths as l
left join hosts as h on h.level = l.level and h.by_method is not distinct from l.by_method
    and h.by_epoch is not distinct from l.by_epoch and h.phase = l.phase
left join played as p on p.level = l.level and p.by_method is not distinct from l.by_method
    and p.by_epoch is not distinct from l.by_epoch
group by l.level, l.by_method, l.by_epoch, l.phase
order by case l.level when 'all' then 0 when 'method' then 1 else 2 end, method, epoch,
    case l.phase when 'together' then 9 when 'collect' then 1 when 'label' then 2 when 'learn' then 3 else 4 end, l.phase
