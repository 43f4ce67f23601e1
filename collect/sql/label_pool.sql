-- Nodes that may be labelled, with what a --where condition may name: the columns of `nodes`, of the node's task, and
-- its present verdict. Nodes lost to infrastructure have nothing to judge. `draw` is uniform in [0, 1) and depends on
-- seed and node only: a share p of the nodes are those with draw < p, whoever asks and whenever.
create or replace temp table label_pool as
select
    n.*,
    t.world,
    t.profile,
    t.split,
    t.difficulty,
    t.family,
    v.value as verdict,
    v.kind as verdict_kind,
    md5_number_lower(concat_ws(':', $seed, n.node_id)) / 18446744073709551616.0 as draw
from nodes as n
join tasks as t on t.task_id = n.task_id
left join audit_verdicts as v on v.node_id = n.node_id
where n.outcome <> 'infra_error'
    and n.epoch in (select unnest($epochs::int[]))
    and ($depths is null or n.depth in (select unnest($depths::int[])))
    and ($purposes is null or n.purpose in (select unnest($purposes::varchar[])))
    and ($verdict = 'any' or v.value is null)
