-- The weight of each depth of one global batch (SERA paper, arXiv 2610.04902), from `depths`: depth, parts (D_d) and
-- trajectories (T_d). raw_d by $rule: trajectories 1 / T_d (0 without any), gamma $gamma ** d, none 1; at most $cap
-- times the smallest of them when $cap > 0. w_d = raw_d * sum D / sum(D * raw), so that the weights of all parts sum
-- to their number.
with raw as (
    select
        depth,
        parts,
        case $rule
            when 'trajectories' then case when trajectories > 0 then 1.0 / trajectories else 0.0 end
            when 'gamma' then pow($gamma, depth)
            else 1.0
        end::double as raw
    from depths
),

capped as (
    select
        depth,
        parts,
        case
            when $cap > 0 then least(raw, $cap * min(raw) filter (parts > 0 and raw > 0) over ())
            else raw
        end as raw
    from raw
)

select
    depth,
    coalesce(raw * sum(parts) over () / nullif(fsum(parts * raw) over (), 0), 0.0) as weight
from capped
order by depth
