-- Who wrote a store: one row per run and phase, with its policies and code version.
select run_id, phase, count(*) as shards, string_agg(distinct code_version, ', ' order by code_version) as code_version,
    coalesce((
        select string_agg(distinct q.name || ' (' || q.engine || ')', ', ' order by q.name || ' (' || q.engine || ')')
        from (select unnest(r2.policies) as q from runs as r2 where r2.run_id = r.run_id and r2.phase = r.phase)
    ), '') as policies
from runs as r group by run_id, phase order by run_id, phase
