-- The headline metrics of the whole in every replicate, to compare two audits replicate by replicate.
select metric, rep, value from audit_replicates where slice = 'all' and level = 'all' and rep >= 0
