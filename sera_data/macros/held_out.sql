-- Whether a share of the tasks that is held out of training holds this one: drawn by the task's id alone, so that it is
-- the same in every store, epoch and run, and a larger share holds all that a smaller one does.
create macro held_out(task_id, share) as
    md5_number_lower(concat('hold-out:', task_id)) / 18446744073709551616.0 < share
