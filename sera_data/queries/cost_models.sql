-- Which models were called in which role, so that their prices can be looked up.
select distinct policy as model, role from turns
union
select distinct source, 'judge' from labels where kind = 'judge'
order by model, role
