-- Candidates that a scorer has not scored yet, with the trees they are in.
select b.epoch, b.run_id, b.tree_id, b.node_id
from branches as b
where b.complete and b.k > 1 and ($run is null or b.run_id = $run)
    and exists (select 1 from rubrics as r where r.delegation_id = b.delegation_id and r.valid and r.phase = 'collect')
    and not exists (
        select 1 from scores as s where s.node_id = b.node_id and s.scorer = $scorer and s.scorer_version = $version
    )
order by b.epoch, b.tree_id, b.delegation_id, b.branch
