-- Task-clustered bootstrap: Poisson(1) weight of each block in each replicate, one list per replicate in block order.
-- Replicate 0 is the data itself (weight 1). A draw multiplies the md5 seeds of block and replicate modulo 2^31 - 1, stirs
-- the product by three xor-multiply rounds and reads the Poisson number off its place in 0 .. 2^31 - 2: whole numbers
-- only, so the weights are the same on every machine and in every DuckDB version.
create or replace temp table boot_weights as
with
seeds as (
    select coalesce(list(seed order by block), []) as seeds
    from (select block, any_value(seed) as seed from boot_blocks group by block)
),
products as (
    select r.rep, list_transform(s.seeds, lambda x: x * r.rep_seed % 2147483647) as draws
    from seeds as s, (
        select range::int as rep, (md5_number_lower(concat_ws(':', 'rep', range)) % 2147483646)::bigint + 1 as rep_seed
        from range(1, $reps + 1)
    ) as r
),
first_round as (
    select rep, list_transform(draws, lambda x: xor(x, x >> 15) * 1103515245 % 2147483647) as draws from products
),
second_round as (
    select rep, list_transform(draws, lambda x: xor(x, x >> 13) * 1812433253 % 2147483647) as draws from first_round
),
third_round as (
    select rep, list_transform(draws, lambda x: xor(x, x >> 16) * 1103515245 % 2147483647) as draws from second_round
),
made as (
    select 0 as rep, list_transform(seeds, lambda x: 1.0::double) as weights from seeds
    union all
    select
        rep,
        list_transform(draws, lambda u: (
            case
                when u < 790015083 then 0
                when u < 1580030168 then 1
                when u < 1975037710 then 2
                when u < 2106706891 then 3
                when u < 2139624186 then 4
                when u < 2146207646 then 5
                when u < 2147304889 then 6
                else 7
            end
        )::double) as weights
    from third_round
)
select rep, weights, weights[:$coarse_blocks] as coarse_weights from made
