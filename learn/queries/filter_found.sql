-- The trainable credited turns of $stages by their age before version $start and how they ended, and whether a row of
-- theirs is trained.
select
    $start - c.policy_version as gap,
    t.finish_reason,
    count(distinct c.turn_id) as n_turns,
    bool_or(c.selected) as passed
from credited as c
join turns as t on t.turn_id = c.turn_id
where c.trainable and list_contains($stages, c.stage)
group by 1, 2
order by 1, 2
