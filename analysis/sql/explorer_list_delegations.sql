-- A page of delegations, worst ranked first: most pairs wrong (a tie is half wrong), then the most negative gap.
select *, count(*) over () as total
from listed_delegations
where
    ($epoch is null or epoch = $epoch)
    and (
        $text = '' or contains(delegation_id, $text) or contains(task_id, $text) or contains(lower(goal), lower($text))
    )
order by (n_wrong + n_ties / 2) / n_pairs desc, mean_gap, n_pairs desc, delegation_id
limit $size offset $first
