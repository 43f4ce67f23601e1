-- Per stage: updates that trained, groups collected for them (dropped ones too), tokens, trained tokens, and seconds: of
-- forward and backward, and of the rest (loading, step).
select stage,
    count(*) filter (where skip_reason is null) as updates,
    sum(len(group_ids) + n_groups_dropped)::double as groups,
    sum(n_tokens)::double as tokens,
    sum(n_trained_tokens)::double as trained,
    coalesce(sum(timings.forward_backward_s), 0)::double as busy_s,
    coalesce(sum(timings.total_s - timings.forward_backward_s), 0)::double as rest_s
from updates
group by stage
order by stage
