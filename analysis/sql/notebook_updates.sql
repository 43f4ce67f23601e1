-- Every optimizer step and every skipped one, in order.
select
    epoch, update, stage, method, version_in, version_out, skip_reason, n_datums, n_groups_dropped, n_trained_tokens,
    loss, grad_norm, lr, entropy, ratio_mean, ratio_max, clip_share, ess, kl, mismatch, advantage_mean,
    advantage_abs_mean, version_gap_mean
from updates
order by update, attempt
