-- Every group of the store and every group with credit, by stage, with what decides whether it can train.
with facts as (
    select
        stage,
        group_id,
        count(*) as n_rows,
        max(abs(advantage)) as largest,
        bool_or(trainable) as trainable,
        bool_or(abs(advantage) > $zero and trainable) as moves,
        bool_or(selected) as selected,
        bool_or(selected and abs(advantage) > $zero and trainable) as selected_moves
    from credited
    group by stage, group_id
),

dealt as (
    select distinct purpose as stage, concat(epoch, '/', task_id) as group_id
    from factual
    where purpose in ('execution', 'delegation', 'rubric')
)

select
    coalesce(f.stage, d.stage) as stage,
    coalesce(f.group_id, d.group_id) as group_id,
    coalesce(f.n_rows, 0) as n_rows,
    coalesce(f.largest, 0) as largest,
    coalesce(f.trainable, false) as trainable,
    coalesce(f.moves, false) as moves,
    coalesce(f.selected, false) as selected,
    coalesce(f.selected_moves, false) as selected_moves
from facts f
full join dealt d on d.stage = f.stage and d.group_id = f.group_id
order by 1, 2
