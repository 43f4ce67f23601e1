-- Every scorer and version, numbered; number 0 stands for none.
create or replace temp table audit_scorers as
select 0 as by_whom, 'none' as scorer, 0 as scorer_version
union all
select (row_number() over (order by scorer, scorer_version))::int, scorer, scorer_version
from (select distinct scorer, scorer_version from scores)
