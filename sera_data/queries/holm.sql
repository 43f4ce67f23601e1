-- Holm's step-down correction: p values ordered, the r-th smallest of m times (m - r + 1), running maximum, at most 1.
select list(adjusted order by place) as adjusted
from (
    select place, least(1, max((m - r + 1) * p) over (order by r)) as adjusted
    from (
        select place, p, count(*) over () as m, row_number() over (order by p, place) as r
        from (select unnest($p_values::double[]) as p, unnest(range(len($p_values::double[]))) as place)
    )
)
