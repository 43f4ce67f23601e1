-- The table of criteria: n, mean, pass rate, phi with its 95 % range, lift, bits, whether it is saturated.
select
    n.name, n.n,
    any_value(m.mean_score) filter (rep = 0) as mean_score, any_value(m.pass_rate) filter (rep = 0) as pass_rate,
    any_value(m.phi) filter (rep = 0) as phi,
    quantile_cont(m.phi, 0.025) filter (rep > 0) as phi_low, quantile_cont(m.phi, 0.975) filter (rep > 0) as phi_high,
    any_value(m.lift) filter (rep = 0) as lift, any_value(m.bits) filter (rep = 0) as bits,
    any_value(m.saturated) filter (rep = 0) > 0.5 as saturated
from item_names as n
join item_metrics as m using (key)
group by n.name, n.n
order by bits desc nulls last, n.name
