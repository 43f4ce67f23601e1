-- The turns a set of trajectories needs: for acting nodes every act turn up to the last credited one, so that prompts
-- can be rebuilt through base_turn; other turns (rubrics) are keyframes and stand alone.
-- `wanted` holds one row per credited turn: turn_id.
with credited as (
    select t.turn_id, t.node_id, t.kind
    from turns t
    where t.turn_id in (select turn_id from wanted)
),

last_act as (
    select node_id, max(turn_id) as turn_id
    from credited
    where kind = 'act'
    group by node_id
)

select t.turn_id, t.node_id, t.kind, t.base_turn, t.prompt_ids, t.completion_ids, t.logprobs, t.policy_version
from turns t
where t.turn_id in (select turn_id from credited where kind <> 'act')
union all
select t.turn_id, t.node_id, t.kind, t.base_turn, t.prompt_ids, t.completion_ids, t.logprobs, t.policy_version
from turns t
join last_act l on l.node_id = t.node_id
where t.kind = 'act' and t.turn_id <= l.turn_id
order by node_id, turn_id
