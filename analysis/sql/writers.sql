-- Who wrote and who scored the audited rows: what the numbers were measured for.
with
wrote as (
    select 'writer' as role, writer as name, writer_version as version, count(*) as n
    from audit_written
    where group_id in (select group_id from audit_scored where valid)
    group by all
),
scored as (
    select 'scorer' as role, s.scorer as name, s.scorer_version as version, r.n
    from (select by_whom, count(*) as n from audit_scored where valid group by by_whom) as r
    join audit_scorers as s on s.by_whom = r.by_whom
)
select role, name, version, n from (from wrote union all from scored)
order by role desc, name, version
