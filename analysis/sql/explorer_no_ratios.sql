-- An empty table in place of a file of ratios.
create table ratios (turn_id varchar, ratios double[])
