-- How well rubrics order the branches of their delegation, by who wrote and scored them, when, and how old the branches
-- are: age = version of the writer minus the version that played the branch. Ties count half. held_out: tasks that a
-- share keeps from training. low, high: 95 % interval of the pair accuracy over tasks, whose pairs belong together.
-- versus_fresh: pair accuracy minus that of the control, which is fresh rubrics (phase collect) of the same writer and
-- scorer on branches of their own version (age 0), collected by the run `control` (a row for each such run); its interval
-- knows which tasks both have. Null: no control, or one task.
with given as (
    select
        r.run_id, r.phase, r.writer, r.writer_version, s.scorer, s.scorer_version, r.delegation_id, r.rubric_id, r.task_id,
        n.node_id, s.final_score as score, v.value >= 0.5 as success,
        r.writer_version - n.policy_version_max as age,
        held_out(r.task_id, $share) as held_out
    from rubrics as r
    join scores as s on s.rubric_id = r.rubric_id and s.valid and s.attempt = 0
    join nodes as n on n.node_id = s.node_id
    join branches as b on b.node_id = n.node_id and b.k > 1 and b.complete
    join verdicts as v on v.node_id = n.node_id
    where r.valid and r.attempt = 0 and v.value is not null
),
compared as (
    select
        w.run_id, w.phase, w.writer, w.writer_version, w.scorer, w.scorer_version, w.held_out, w.age,
        w.task_id, w.delegation_id, w.rubric_id, round(w.score - l.score, 12) as gap,
        case when gap > 0 then 1.0 when gap = 0 then 0.5 else 0.0 end as won
    from given as w
    join given as l
        on l.rubric_id = w.rubric_id and l.scorer = w.scorer and l.scorer_version = w.scorer_version
    where w.success and not l.success
),
figures as (
    select
        phase, run_id, writer, writer_version, scorer, scorer_version, age, held_out,
        row_number() over (order by phase, run_id, writer, writer_version, scorer, scorer_version, age, held_out) as line,
        count(distinct task_id) as tasks,
        count(distinct delegation_id) as delegations,
        count(distinct rubric_id) as rubrics,
        count(*) as pairs,
        avg(won) as pair_accuracy,
        avg((gap >= 0.2 - 1e-9)::int) as margin_rate
    from compared
    group by phase, run_id, writer, writer_version, scorer, scorer_version, age, held_out
),
-- how much each task moves the pair accuracy of its line; the sum of the squares is its variance over tasks
moved as (
    select f.line, c.task_id, sum(c.won - f.pair_accuracy) / any_value(f.pairs) as moves
    from compared as c
    join figures as f
        on (f.phase, f.run_id, f.writer, f.writer_version, f.scorer, f.scorer_version, f.age, f.held_out)
        = (c.phase, c.run_id, c.writer, c.writer_version, c.scorer, c.scorer_version, c.age, c.held_out)
    group by f.line, c.task_id
),
spread as (
    select line, case when count(*) > 1 then sqrt(sum(moves ** 2) * count(*) / (count(*) - 1)) end as error
    from moved
    group by line
),
controls as (
    select f.line, c.line as control, c.run_id as control_run, f.pair_accuracy - c.pair_accuracy as versus_fresh
    from figures as f
    join figures as c
        on (c.writer, c.writer_version, c.scorer, c.scorer_version, c.held_out)
        = (f.writer, f.writer_version, f.scorer, f.scorer_version, f.held_out)
    where c.phase = 'collect' and c.age = 0 and c.line <> f.line
),
apart as (
    select line, control, task_id, sum(moves) as moves
    from (
        select k.line, k.control, m.task_id, m.moves
        from controls as k
        join moved as m on m.line = k.line
        union all
        select k.line, k.control, m.task_id, -m.moves
        from controls as k
        join moved as m on m.line = k.control
    )
    group by line, control, task_id
),
versus as (
    select
        k.line, k.control, k.control_run, k.versus_fresh,
        case when count(*) > 1 then sqrt(sum(a.moves ** 2) * count(*) / (count(*) - 1)) end as error
    from controls as k
    join apart as a on a.line = k.line and a.control = k.control
    group by k.line, k.control, k.control_run, k.versus_fresh
)
select
    f.phase, f.run_id, f.writer, f.writer_version, f.scorer, f.scorer_version, f.age, f.held_out,
    f.tasks, f.delegations, f.rubrics, f.pairs, f.pair_accuracy,
    greatest(f.pair_accuracy - 1.96 * s.error, 0.0) as low,
    least(f.pair_accuracy + 1.96 * s.error, 1.0) as high,
    f.margin_rate, v.control_run as control, v.versus_fresh,
    v.versus_fresh - 1.96 * v.error as versus_low,
    v.versus_fresh + 1.96 * v.error as versus_high
from figures as f
join spread as s on s.line = f.line
left join versus as v on v.line = f.line
order by f.writer, f.writer_version, f.phase, f.run_id, f.scorer, f.scorer_version, f.age, f.held_out, v.control
