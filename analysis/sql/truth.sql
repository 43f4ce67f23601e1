-- The verdict on each node that the audit goes by (view `audit_verdicts`), worked out once.
create or replace temp table audit_truth as
select node_id, value, kind, use from verdict_scopes where scope = 'all'
