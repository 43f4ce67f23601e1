-- The first row that breaks the contract, the gravest fault first: a join in the SQL that goes wrong shows up here.
(
    select 1 as place, turn_id, concat('credit names turn ', turn_id, ', which is not in the store') as fault
    from credited
    where policy_version is null
    order by turn_id
    limit 1
)
union all
(
    select
        2, turn_id,
        concat(
            'span [', token_start, ', ', token_end, ') is not inside turn ', turn_id, ', which has ', n_tokens,
            ' completion tokens'
        )
    from credited
    where policy_version is not null
        and (token_start < 0 or token_end > n_tokens or (token_start >= token_end and n_tokens > 0))
    order by turn_id, token_start
    limit 1
)
union all
(
    select 3, turn_id, concat('two credit rows of stage ', stage, ' cover the same tokens of turn ', turn_id)
    from (
        select
            stage, turn_id, token_start, n_tokens,
            lag(token_end) over (partition by stage, turn_id order by token_start, token_end) as reach
        from credited
    )
    where reach is not null and (token_start < reach or n_tokens = 0)
    order by turn_id
    limit 1
)
union all
(
    select 4, turn_id, concat('depth is 0 or more, got a negative one for turn ', turn_id)
    from credited
    where depth < 0
    order by turn_id
    limit 1
)
union all
(
    select
        5, turn_id,
        concat('turn ', turn_id, ' is of node ', node_id, ', the credit row pays it as trajectory ', trajectory_id)
    from credited
    where kind = 'act' and trajectory_id <> node_id
    order by turn_id
    limit 1
)
union all
(
    select
        6, c.turn_id,
        concat('turn ', c.turn_id, ' wrote another rubric than ', c.trajectory_id, ', which the credit row pays it for')
    from credited c
    anti join rubrics r on r.turn_id = c.turn_id and r.rubric_id = c.trajectory_id
    where c.kind = 'rubric'
    order by c.turn_id
    limit 1
)
union all
(
    select
        7, turn_id,
        concat('turn ', turn_id, ' belongs to group ', own_group, ', the credit row puts it into ', group_id)
    from credited
    where own_group <> group_id
    order by turn_id
    limit 1
)
order by 1, 2
limit 1
