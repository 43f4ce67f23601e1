-- Epochs that have nodes.
select distinct epoch from nodes order by epoch
