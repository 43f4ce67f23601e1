-- Who wrote and who scored the audited rows: what the numbers were measured for.
select role, name, version, n from (
    select 'writer' as role, writer as name, writer_version as version, count(distinct rubric_id) as n
    from audit_scored where valid group by all
    union all
    select 'scorer', scorer, scorer_version, count(*) from audit_scored where valid group by all
)
order by role desc, name, version
