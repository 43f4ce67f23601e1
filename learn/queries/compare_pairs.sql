-- One row per task with pairs: ties count half, hinge max(0, $margin - gap), share of gaps that reach the margin.
select
    task_id,
    avg(case when gap > 1e-9 then 1.0 when gap < -1e-9 then 0.0 else 0.5 end) as pair_accuracy,
    avg(greatest(0.0, $margin - gap)) as hinge,
    avg((gap >= $margin - 1e-9)::double) as margin_rate
from pairs
group by task_id
order by task_id
