-- Control: the verdict on every node that has one is a coin flip, by md5 of $seed and the node.
create temp table verdicts as
select
    * replace (
        case when value is not null then (md5_number_lower(concat_ws('|', $seed, node_id)) % 2)::double end as value
    )
from verdicts
