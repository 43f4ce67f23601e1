-- When a run should not be paid for any longer: one row per rule on the newest collect epoch and its updates, with the
-- value, the bound, and whether it fired. A value that the epoch does not have (no rubrics, no update) fires nothing.
with
newest as (select max(epoch) as epoch from nodes),
roots as (select n.outcome from nodes as n join newest using (epoch) where n.parent_id is null),
written as (select r.valid from rubrics as r join newest using (epoch) where r.attempt = 0 and r.phase = 'collect'),
steps as (select u.* from updates as u join newest using (epoch) where u.skip_reason is null),
started as (select entropy from updates where epoch = (select min(epoch) from updates) and skip_reason is null),
rules as (
    select 'share of trees lost to infrastructure' as rule, avg((outcome = 'infra_error')::int) as value, 0.2 as bound, 'above' as side from roots
    union all
    select 'share of trees cut off', avg((outcome = 'truncated')::int), 0.2, 'above' from roots
    union all
    select 'share of valid rubrics', avg(valid::int), 0.5, 'below' from written
    union all
    select 'effective sample size', min(ess), 0.3, 'below' from steps
    union all
    select 'share of clipped ratios', max(clip_share), 0.05, 'above' from steps
    union all
    select 'entropy beside the first epoch''s', (select avg(entropy) from steps) / nullif((select avg(entropy) from started), 0), 0.1, 'below'
)
select rule, value, bound::double as bound, side,
    coalesce(case side when 'above' then value > bound else value < bound end, false) as fired
from rules
where value is not null
order by rule
