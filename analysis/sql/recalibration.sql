-- Does the map from score to success rate of one epoch hold in the next? Brier score of the later epoch with its scores
-- as they are and with each score replaced by the earlier epoch's success rate at it (kept where there is none).
with
epochs as (
    select level::int as epoch, lead(level::int) over (order by level::int) as next_epoch
    from (select distinct level from score_reps where slice = 'epoch')
),
both_epochs as (
    select
        e.epoch, e.next_epoch, now.rep, now.score, now.n, now.a, coalesce(before.a / before.n, now.score) as mapped
    from epochs as e
    join score_reps as now on now.slice = 'epoch' and now.level = e.next_epoch::varchar
    left join score_reps as before
        on before.slice = 'epoch' and before.level = e.epoch::varchar and before.rep = now.rep and before.key = now.key
        and before.n > 0
    where now.n > 0
),
scored as (
    select
        epoch, next_epoch, rep, sum(n) as n,
        sum(a * power(1 - score, 2) + (n - a) * power(score, 2)) / sum(n) as brier,
        sum(a * power(1 - mapped, 2) + (n - a) * power(mapped, 2)) / sum(n) as brier_mapped
    from both_epochs
    group by epoch, next_epoch, rep
)
select
    epoch, next_epoch, any_value(n) filter (rep = 0)::bigint as n,
    any_value(brier) filter (rep = 0) as brier, any_value(brier_mapped) filter (rep = 0) as brier_mapped,
    any_value(brier - brier_mapped) filter (rep = 0) as gain,
    quantile_cont(brier - brier_mapped, 0.025) filter (rep > 0)
        + any_value(brier - brier_mapped) filter (rep = 0) - any_value(brier - brier_mapped) filter (rep = -1) as low,
    quantile_cont(brier - brier_mapped, 0.975) filter (rep > 0)
        + any_value(brier - brier_mapped) filter (rep = 0) - any_value(brier - brier_mapped) filter (rep = -1) as high
from scored
group by epoch, next_epoch
order by epoch
