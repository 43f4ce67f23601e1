-- A table in place of view `scored`, which is kept as computed_scored: `explorer_open_tree.sql` fills it from there.
alter view scored rename to computed_scored;
create table scored as from computed_scored limit 0;
