-- Updates and skips per epoch and stage, with the mean loss and entropy of the real ones.
select
    epoch,
    stage,
    count(*) filter (skip_reason is null) as updates,
    count(*) filter (skip_reason is not null) as skips,
    avg(loss) as loss,
    avg(entropy) as entropy,
    max(version_out) as version
from updates
group by epoch, stage
order by epoch, stage
