-- The turns of one node in order: its own completions, the rubrics it wrote, and the scores of its episode.
select * from turns where node_id = $node_id order by turn_id
