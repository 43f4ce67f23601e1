-- Hash of credit rows as a set: their number and the sums of the two halves of each row's md5, whatever their order.
select
    count(*) as n_rows,
    coalesce(sum(md5_number_lower(line)), 0)::varchar as low,
    coalesce(sum(md5_number_upper(line)), 0)::varchar as high
from (
    select
        concat_ws(
            chr(31), turn_id, trajectory_id, stage, token_start, token_end, reward, baseline, advantage, depth, group_id
        ) as line
    from credit_rows
)
