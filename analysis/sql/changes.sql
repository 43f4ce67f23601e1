-- Two audits compared: each metric before and now, and the 95 % range of the change over replicates. Replicate r gives a
-- task the same weight in both, so tasks that both hold are compared with themselves.
select
    n.metric, any_value(o.value) filter (n.rep = 0) as before, any_value(n.value) filter (n.rep = 0) as now,
    any_value(n.value - o.value) filter (n.rep = 0) as change,
    quantile_cont(n.value - o.value, 0.025) filter (n.rep > 0) as low,
    quantile_cont(n.value - o.value, 0.975) filter (n.rep > 0) as high
from (select unnest($now::struct(metric varchar, rep int, value double)[], recursive := true)) as n
join (select unnest($before::struct(metric varchar, rep int, value double)[], recursive := true)) as o
    on o.metric = n.metric and o.rep = n.rep
group by n.metric
