-- Puts empty tables in front of the tables that know their tree or task, so that every view works on one tree:
-- `explorer_open_tree.sql` fills them by point reads. The rows of the whole store stay in their files, as stored_*.
alter view task_rows rename to stored_task_rows;
alter view nodes rename to stored_nodes;
alter view turns rename to stored_turns;
alter view rubrics rename to stored_rubrics;
alter view branches rename to stored_branches;
alter view labels rename to stored_labels;
alter view scores rename to stored_scores;
create table task_rows as from stored_task_rows limit 0;
create table nodes as from stored_nodes limit 0;
create table turns as from stored_turns limit 0;
create table rubrics as from stored_rubrics limit 0;
create table branches as from stored_branches limit 0;
create table labels as from stored_labels limit 0;
create table scores as from stored_scores limit 0;
-- A point read is a row group or two: nothing to share between threads.
set threads = 1;
