-- Writers x scorers on the same branches: pair accuracy (ties half), mean hinge, bias and share of missing scores of each
-- combination, with 95 % ranges over replicates of tasks; replicate 0 is the data. `against_first`: pair accuracy minus
-- that of the first combination in the same replicate, so that combinations are compared on the same tasks.
--   a missing score counts as worst: 1 - verdict
with
line as (
    select
        writer, scorer, task_id, delegation_id, y, score is null as missing, coalesce(score, 1 - y) as score, place
    from cross_lines
),
pair as (
    select a.writer, a.scorer, a.task_id, round(a.score - b.score, 9) as gap
    from line as a
    join line as b on b.writer = a.writer and b.scorer = a.scorer and b.delegation_id = a.delegation_id
    where a.y = 1 and b.y = 0
),
pair_sums as (
    select
        writer, scorer, task_id, count(*) as pairs,
        sum(case when gap > 1e-9 then 2 when gap >= -1e-9 then 1 else 0 end) as halves,
        sum((greatest(0, $margin - gap) * 1e9)::bigint) as hinge
    from pair
    group by writer, scorer, task_id
),
node_sums as (
    select
        writer, scorer, task_id, min(place) as place, count(*) as n, count(*) filter (missing) as missing,
        sum(((score - y) * 1e9)::bigint) as error
    from line
    group by writer, scorer, task_id
),
weighted as (
    select
        n.writer, n.scorer, w.rep, min(n.place) as place, sum(w.weights[b.block + 1] * p.pairs) as pairs,
        sum(w.weights[b.block + 1] * p.halves) / 2 as right_pairs, sum(w.weights[b.block + 1] * p.hinge) / 1e9 as hinge,
        sum(w.weights[b.block + 1] * n.n) as n, sum(w.weights[b.block + 1] * n.missing) as missing,
        sum(w.weights[b.block + 1] * n.error) / 1e9 as error, count(distinct n.task_id) as tasks
    from node_sums as n
    join boot_blocks as b on b.task_id = n.task_id
    left join pair_sums as p on p.writer = n.writer and p.scorer = n.scorer and p.task_id = n.task_id
    cross join boot_weights as w
    group by n.writer, n.scorer, w.rep
),
ratio as (
    select
        writer, scorer, rep, place, pairs, n, tasks, right_pairs / nullif(pairs, 0) as pair_accuracy,
        hinge / nullif(pairs, 0) as mean_hinge, error / nullif(n, 0) as bias, missing / nullif(n, 0) as missing
    from weighted
),
compared as (
    select *, pair_accuracy - first_value(pair_accuracy) over (partition by rep order by place) as against_first
    from ratio
)
select
    writer, scorer, any_value(pairs) filter (rep = 0)::bigint as pairs, any_value(n) filter (rep = 0)::bigint as nodes,
    any_value(tasks) as tasks,
    any_value(pair_accuracy) filter (rep = 0) as pair_accuracy,
    quantile_cont(pair_accuracy, 0.025) filter (rep > 0) as low, quantile_cont(pair_accuracy, 0.975) filter (rep > 0) as high,
    any_value(mean_hinge) filter (rep = 0) as mean_hinge, any_value(bias) filter (rep = 0) as bias,
    any_value(missing) filter (rep = 0) as missing, any_value(against_first) filter (rep = 0) as against_first,
    quantile_cont(against_first, 0.025) filter (rep > 0) as against_low,
    quantile_cont(against_first, 0.975) filter (rep > 0) as against_high
from compared
group by writer, scorer
order by min(place)
