-- Every rater that is not a program, numbered.
create or replace temp table judge_raters as
select kind, source, version, (row_number() over (order by kind, source, version))::int as key
from (select distinct kind, source, version from audit_judged)
