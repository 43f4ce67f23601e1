-- Keep the rows whose turn was sampled at most $max_gap updates before version $start and ended by one of $reasons, any
-- where that list is empty.
update credited
set selected = selected and turn_id in (
    select turn_id
    from turns
    where $start - policy_version <= $max_gap and (len($reasons) = 0 or list_contains($reasons, finish_reason))
)
