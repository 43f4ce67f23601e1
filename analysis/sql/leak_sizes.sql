-- What the checks on cheating rest on.
select
    sum(residual_y_n + residual_n_n)::bigint as label_leak, sum(n1 + n0)::bigint as length_partial,
    sum(idle_n)::bigint as idle_score, sum(n1 + n0)::bigint as top_share,
    case when sum(own_n) > 0 and sum(other_n) > 0 then sum(own_n + other_n)::bigint else 0 end as self_preference,
    (select audited_tasks from audit_coverage) as tasks
from leak_cells
