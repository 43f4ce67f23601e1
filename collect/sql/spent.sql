-- What the committed rows of a run say it has spent: the price of its turns and votes, and the votes of judges.
-- $epochs: only these, null for all.
select
    coalesce((select sum(cost) from turns where run_id = $run_id and ($epochs is null or list_contains($epochs, epoch))), 0)
    + coalesce((select sum(cost) from labels where run_id = $run_id and ($epochs is null or list_contains($epochs, epoch))), 0)
    as cost,
    (select count(*) from labels
        where kind = 'judge' and run_id = $run_id and ($epochs is null or list_contains($epochs, epoch))) as labels
