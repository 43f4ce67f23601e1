-- How much better scores rank over all nodes than inside a delegation: what merely knowing the task is worth.
--   auroc_gap = pooled AUROC - AUROC within groups
create or replace temp table rank_gap as
select r.slice, r.level, r.rep, r.auroc - p.auroc_within as auroc_gap
from (select *, greatest(rep, 0)::int as pair_rep from rank_metrics) as r
join (select slice, level, rep::int as pair_rep, auroc_within from pair_metrics) as p using (slice, level, pair_rep)
