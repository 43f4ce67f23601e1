-- Groups with two policy versions in one baseline: over the credited turns and, before rubrics, over the factual nodes.
with spread as (
    select stage, group_id, min(policy_version) as low, max(policy_version) as high
    from credited
    group by stage, group_id
),

members as (
    select
        n.purpose as stage,
        concat(n.epoch, '/', n.task_id) as group_id,
        min(n.policy_version_min) as low,
        max(n.policy_version_max) as high
    from factual n
    where n.purpose in ('execution', 'delegation') and n.outcome <> 'infra_error'
    group by n.purpose, n.epoch, n.task_id
)

select s.stage, s.group_id, least(s.low, m.low) as low, greatest(s.high, m.high) as high
from spread s
left join members m on m.stage = s.stage and m.group_id = s.group_id
where least(s.low, m.low) < greatest(s.high, m.high)
order by 1, 2
limit 1
