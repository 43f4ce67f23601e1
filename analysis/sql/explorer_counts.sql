-- How many entries each list has, and the epochs to choose from.
select
    count(*) as trees, count(*) filter (success = 0) as failed, count(*) filter (mixed) as mixed,
    count(*) filter (n_loops > 0) as loops, count(*) filter (n_infra > 0) as infra,
    (select count(*) from listed_delegations) as worst, coalesce(list_sort(list(distinct epoch)), []) as epochs
from listed_trees
