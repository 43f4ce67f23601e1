-- How much better scores rank over all nodes than inside a delegation: what merely knowing the task is worth.
--   auroc_gap = pooled AUROC - AUROC within groups
create or replace temp table rank_gap as
select r.slice, r.level, r.rep, r.auroc - p.auroc_within as auroc_gap
from rank_metrics as r
join pair_metrics as p on p.slice = r.slice and p.level = r.level and p.rep = greatest(r.rep, 0)
