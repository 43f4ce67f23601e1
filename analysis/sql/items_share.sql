-- Share of the criteria shown one by one that are saturated.
select avg(saturated) as saturated, count(*) as n from item_metrics where rep = 0
