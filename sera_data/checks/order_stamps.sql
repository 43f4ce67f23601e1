-- A rubric of phase collect is frozen before any branch of its delegation starts.
select r.rubric_id as id,
    'order_stamp ' || r.order_stamp || ' is not before order_start ' || n.order_start || ' of ' || n.node_id as fault
from fresh.rubrics as r
join known.nodes as n on n.delegation_id = r.delegation_id
where r.phase = 'collect' and r.order_stamp >= n.order_start
order by 1, 2
