-- Runs whose learn phases a store holds.
select distinct run_id from runs where phase = 'learn' order by run_id
