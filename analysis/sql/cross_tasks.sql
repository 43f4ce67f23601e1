-- The tasks of a crossing, where the bootstrap looks for them.
create or replace temp table audit_groups as select distinct task_id from cross_lines;
create or replace temp table audit_judged as select task_id from cross_lines where false
