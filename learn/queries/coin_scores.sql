-- Control: every valid score is a coin flip, by md5 of $seed, the node and the rubric.
create temp table scores as
select
    * exclude (coin) replace (
        case when valid then coin::double end as final_score,
        case when valid then coin::double end as weighted_score,
        case when valid then coin = 1 end as success
    )
from (
    select *, md5_number_lower(concat_ws('|', $seed, node_id, rubric_id)) % 2 as coin
    from scores
)
