-- The trees of one group: the samples of a task in one epoch.
select tree_id, sample, success, outcome from listed_trees
where run_id = $run_id and epoch = $epoch and task_id = $task_id
order by sample
