-- Optimizer steps per epoch and stage: done and skipped, policy versions, mean loss and mean ratio.
select
    epoch, stage,
    count(*) filter (skip_reason is null) as updates,
    count(*) filter (skip_reason is not null) as skipped,
    string_agg(distinct skip_reason, '; ' order by skip_reason) as skip_reasons,
    min(version_in) as version_in, max(version_out) as version_out,
    sum(n_datums) as datums, sum(n_trained_tokens) as trained_tokens,
    avg(loss) as loss, avg(grad_norm) as grad_norm, avg(ratio_mean) as ratio_mean, avg(kl) as kl
from updates
group by epoch, stage
order by epoch, stage
