-- How well rubrics order the branches of their delegation, by who wrote and scored them, when, and how old the branches
-- are: age = version of the writer minus the version that played the branch. Fresh ones (phase collect, age 0) are the
-- control of refreshed ones. Ties count half. held_out: tasks that a share keeps from rubric training, by their ids.
with given as (
    select
        r.run_id, r.phase, r.writer, r.writer_version, s.scorer, s.scorer_version, r.delegation_id, r.rubric_id,
        n.node_id, s.final_score as score, v.value >= 0.5 as success,
        r.writer_version - n.policy_version_max as age,
        md5_number_lower(concat('hold-out:', r.task_id)) / 18446744073709551616.0 < $share as held_out
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
        w.delegation_id, w.rubric_id, round(w.score - l.score, 12) as gap
    from given as w
    join given as l
        on l.rubric_id = w.rubric_id and l.scorer = w.scorer and l.scorer_version = w.scorer_version
    where w.success and not l.success
)
select
    phase, run_id, writer, writer_version, scorer, scorer_version, age, held_out,
    count(distinct delegation_id) as delegations,
    count(distinct rubric_id) as rubrics,
    count(*) as pairs,
    avg(case when gap > 0 then 1.0 when gap = 0 then 0.5 else 0.0 end) as pair_accuracy,
    avg((gap >= 0.2 - 1e-9)::int) as margin_rate
from compared
group by all
order by writer, writer_version, phase, run_id, scorer, scorer_version, age, held_out
