-- A page of trees that pass a filter; total counts all of them.
select *, count(*) over () as total
from listed_trees
where
    ($epoch is null or epoch = $epoch)
    and (
        $text = '' or tree_id = $text or task_id = $text or contains(lower(goal), lower($text))
        or contains(tree_id, $text) or contains(task_id, $text)
    )
    and case $filter
        when 'failed' then success = 0
        when 'mixed' then mixed
        when 'loops' then n_loops > 0
        when 'infra' then n_infra > 0
        else true
    end
order by epoch desc, task_id, sample, tree_id
limit $size offset $first
