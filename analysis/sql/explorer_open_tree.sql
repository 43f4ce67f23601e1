-- Rows of one tree. Sealed files are sorted by tree_id, so that all row groups but one or two are skipped;
-- then what two views say about it.
truncate nodes;
truncate turns;
truncate rubrics;
truncate branches;
truncate labels;
truncate scores;
truncate verdict_scopes;
truncate scored;
insert into nodes from stored_nodes where tree_id = $tree_id;
insert into turns from stored_turns where tree_id = $tree_id;
insert into rubrics from stored_rubrics where tree_id = $tree_id;
insert into branches from stored_branches where tree_id = $tree_id;
insert into labels from stored_labels where tree_id = $tree_id;
insert into scores from stored_scores where tree_id = $tree_id;
insert into verdict_scopes from computed_verdict_scopes;
insert into scored from computed_scored;
