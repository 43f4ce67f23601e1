-- Task-clustered bootstrap: Poisson(1) weight of each task in each replicate. Replicate 0 is the data itself (weight 1).
-- Weights come from md5(seed, replicate, task), so that they are the same on every machine and in every DuckDB version.
create or replace temp table boot_weights as
with task as (
    select task_id from audit_scored
    union
    select task_id from audit_judged
),
uniform as (
    select
        r.range as rep, t.task_id,
        md5_number_lower(concat_ws(':', $seed, r.range, t.task_id)) / 18446744073709551616.0 as u
    from range(1, $reps + 1) r, task t
)
select 0 as rep, task_id, 1 as weight from task
union all
select
    rep, task_id,
    case
        when u < 0.36787944117144233 then 0
        when u < 0.73575888234288467 then 1
        when u < 0.91969860292860584 then 2
        when u < 0.98101184312384621 then 3
        when u < 0.99634015317265635 then 4
        when u < 0.99940581518241835 then 5
        when u < 0.99991675885071196 then 6
        else 7
    end as weight
from uniform
where u >= 0.36787944117144233
