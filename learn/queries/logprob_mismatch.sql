-- How far trainer and engine are apart: d = recomputed - stored log-probability of one completion token, in nats, under
-- the weights that sampled it; by recomputation run (of $run_id, or of all where that is null), epoch and role. mean_abs,
-- max_abs: of |d|; over_bound: share of tokens with |d| above 0.02; kl: mean(exp(d) - 1 - d), the k3 estimate; ratio_max:
-- largest exp(d). worst_turn holds the largest |d|.
with pairs as (
    select
        l.run_id,
        l.epoch,
        t.role,
        l.dtype,
        l.turn_id,
        unnest(l.logprobs)::double - unnest(t.logprobs)::double as d
    from logprobs as l
    join turns as t on t.turn_id = l.turn_id
    where $run_id is null or l.run_id = $run_id
)

select
    run_id,
    epoch,
    role,
    dtype,
    count(distinct turn_id) as turns,
    count(*) as tokens,
    avg(abs(d)) as mean_abs,
    max(abs(d)) as max_abs,
    avg(d) as mean,
    avg((abs(d) > 0.02)::int) as over_bound,
    max(exp(d)) as ratio_max,
    avg(exp(d) - 1 - d) as kl,
    arg_max(turn_id, abs(d)) as worst_turn
from pairs
group by run_id, epoch, role, dtype
order by run_id, epoch, role, dtype
