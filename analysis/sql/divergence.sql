-- Score minus label over the last three epochs with scores: does it rise twice, and is the whole rise above 0 for sure?
-- This is the signature of a rubric that is being gamed: scores rise and success does not follow.
with
newest as (
    select level::int as epoch, row_number() over (order by level::int desc) as back
    from (select distinct level from score_reps where slice = 'epoch')
    qualify back <= 3
),
gap as (
    select m.rep, 4 - row_number() over (partition by m.rep order by n.epoch desc) as place, n.epoch, m.bias
    from newest as n
    join calibration_metrics as m on m.slice = 'epoch' and m.level = n.epoch::varchar
),
three as (
    select
        rep, list(epoch order by place) as epochs, list(bias order by place) as biases
    from gap
    group by rep
    having count(*) = 3
),
rise as (
    select
        rep, epochs, biases, biases[3] - biases[1] as rise,
        biases[2] > biases[1] + 1e-9 and biases[3] > biases[2] + 1e-9 as twice
    from three
)
select
    any_value(epochs) filter (rep = 0) as epochs, any_value(biases) filter (rep = 0) as biases,
    any_value(rise) filter (rep = 0) as rise,
    quantile_cont(rise, 0.025) filter (rep > 0) as low, quantile_cont(rise, 0.975) filter (rep > 0) as high,
    any_value(twice) filter (rep = 0) and coalesce(quantile_cont(rise, 0.025) filter (rep > 0) > 0, false) as rising
from rise
having count(*) > 0
