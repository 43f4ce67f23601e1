-- A table in place of view `verdict_scopes`, which is kept as computed_verdict_scopes: `explorer_open_tree.sql` fills it from there.
alter view verdict_scopes rename to computed_verdict_scopes;
create table verdict_scopes as from computed_verdict_scopes limit 0;
