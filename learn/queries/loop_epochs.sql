-- One row per collect epoch of a loop: trees, success of finished trees with a verdict, share of forked delegations whose
-- branches are mixed, pair accuracy with ties as half, mean hinge max(0, $margin - gap) over pairs of scores.
with
success as (
    select epoch, count(*) as trees, avg(success) as success, avg(success) filter (purpose = 'execution') as execution
    from trees
    group by epoch
),
forks as (
    select n.epoch, n.delegation_id, min(v.value) as low, max(v.value) as high
    from nodes as n
    join branches as b on b.delegation_id = n.delegation_id and b.branch = n.branch
    join verdicts as v on v.node_id = n.node_id
    where b.k > 1
    group by n.epoch, n.delegation_id
),
mixed as (
    select epoch, count(*) as forked, avg((low < high)::double) as mixed_share from forks group by epoch
),
ranking as (
    select
        epoch,
        count(*) as pairs,
        avg(case when gap > 1e-9 then 1.0 when gap >= -1e-9 then 0.5 else 0.0 end) as pair_accuracy,
        avg(greatest(0.0, $margin - gap)) as hinge
    from pairs
    group by epoch
)
select s.epoch, s.trees, s.success, m.forked, m.mixed_share, r.pairs, r.pair_accuracy, r.hinge
from success as s
left join mixed as m on m.epoch = s.epoch
left join ranking as r on r.epoch = s.epoch
order by s.epoch
