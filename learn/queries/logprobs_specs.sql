-- The configurations of the runs that sampled something, which name policies by where they lie.
select distinct config from runs where phase in ('collect', 'refresh', 'eval') order by config
