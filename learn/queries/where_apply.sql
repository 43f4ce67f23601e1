-- Keep the rows whose $column is among the values that a where file returned.
update credited
set selected = case $column
    when 'group_id' then group_id
    when 'tree_id' then tree_id
    when 'node_id' then node_id
    when 'trajectory_id' then trajectory_id
    else turn_id
end in (select columns(*)::varchar from where_part)
