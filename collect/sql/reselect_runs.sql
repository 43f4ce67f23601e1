-- What the runs of a store were played with.
select run_id, min(config) as config from runs where phase in ('collect', 'eval') group by run_id order by run_id
