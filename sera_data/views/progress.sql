-- Trees per run, epoch and purpose: how many, how often they succeed (trees without a verdict left out), how they ended.
select
    run_id,
    epoch,
    purpose,
    count(*) as n_trees,
    sum(n_nodes)::bigint as n_nodes,
    avg(success) as success,
    avg((outcome = 'finished')::int) as share_finished,
    avg((outcome = 'not_finished')::int) as share_not_finished,
    avg((outcome = 'truncated')::int) as share_truncated,
    avg((outcome = 'loop')::int) as share_loop,
    avg((outcome = 'timeout')::int) as share_timeout,
    avg((outcome = 'infra_error')::int) as share_infra_error
from trees
group by run_id, epoch, purpose
