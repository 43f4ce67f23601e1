-- The credit of the turns of one node, from the file that `sera credit --rows` wrote; a turn's id starts with its node's.
select turn_id, stage, token_start, token_end, reward, baseline, advantage, trajectory_id
from credit
where turn_id in (select turn_id from turns where node_id = $node_id)
order by turn_id, stage, token_start
