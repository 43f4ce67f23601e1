-- The audited rows: the scored nodes of the view `scored` that have a finite score and a verdict (`valid` true), and the
-- nodes under a rubric that lack a usable score (`valid` false), which get the worst one: 1 - verdict.
-- group_id: number of the rubric, which with scorer and version names the branches that can be compared.
-- length_tenth: tenth of the delegation's mean branch length among all delegations, 1 (shortest) to 10; ties together.
-- Scores are rounded to 9 digits, so that equal scores compare equal whatever arithmetic made them.
create or replace temp table audit_scored as
with
written as (
    select
        rubric_id, delegation_id, writer, writer_version, valid,
        (row_number() over (order by delegation_id, writer, rubric_id))::int as group_id
    from rubrics
    where phase = 'collect' and k = 0 and attempt = 0
),
given as (
    select
        s.node_id, w.group_id, s.scorer, s.scorer_version, round(s.final_score, 9) as score, s.weighted_score,
        s.item_scores
    from scores as s
    join written as w on w.rubric_id = s.rubric_id and w.valid
    where s.valid and s.attempt = 0 and s.phase = 'collect' and isfinite(s.final_score)
),
usual as (
    select group_id, min({'scorer': scorer, 'scorer_version': scorer_version}) as by_whom from given group by group_id
),
first_rubric as (
    select delegation_id, min(group_id) as group_id from written group by delegation_id
),
met as (
    select c.*, g.* exclude (node_id), g.node_id is not null as valid
    from audit_children as c
    left join given as g on g.node_id = c.node_id
    where c.y is not null
),
both_kinds as (
    from met where valid
    union all by name
    select
        m.* exclude (group_id, scorer, scorer_version, score), f.group_id, coalesce(u.by_whom.scorer, 'none') as scorer,
        coalesce(u.by_whom.scorer_version, 0) as scorer_version, 1 - m.y as score
    from met as m
    join first_rubric as f on f.delegation_id = m.delegation_id
    left join usual as u on u.group_id = f.group_id
    where not m.valid
),
long as (
    select group_id, avg(length) as mean_length from both_kinds group by group_id
),
tenths as (
    select
        group_id,
        least(floor(10 * (rank() over (order by mean_length) - 1 + count(*) over (partition by mean_length) / 2)
            / count(*) over ()), 9)::int + 1 as length_tenth
    from long
)
select
    r.*, w.rubric_id, w.writer, w.writer_version, t.length_tenth,
    coalesce(k.difficulty, 'unknown') as difficulty, coalesce(k.world, 'unknown') as world
from both_kinds as r
join written as w on w.group_id = r.group_id
join tenths as t on t.group_id = r.group_id
left join tasks as k on k.task_id = r.task_id
