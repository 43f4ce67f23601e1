-- Control: every label of a node says the same coin flip, by md5 of $seed and the node.
create temp table labels as
select
    * replace (
        case
            when valid and value is not null then (md5_number_lower(concat_ws('|', $seed, node_id)) % 2)::double
        end as value
    )
from labels
