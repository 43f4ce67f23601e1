-- Every number (row `id` of boot_lists) in every replicate: the sum over blocks of value x weight. A coarse block has the
-- weight of the first of the blocks that share it. Even and odd replicates apart, so that two processors have work.
create or replace temp table boot_products as
select * from (
    select c.id, w.rep, list_dot_product(w.weights, c.blocks) as value
    from (from boot_lists where not coarse) as c, (from boot_weights where rep % 2 = 0) as w
    union all
    select c.id, w.rep, list_dot_product(w.weights, c.blocks) as value
    from (from boot_lists where not coarse) as c, (from boot_weights where rep % 2 = 1) as w
    union all
    select c.id, w.rep, list_dot_product(w.coarse_weights, c.blocks) as value
    from (from boot_lists where coarse) as c, (from boot_weights where rep % 2 = 0) as w
    union all
    select c.id, w.rep, list_dot_product(w.coarse_weights, c.blocks) as value
    from (from boot_lists where coarse) as c, (from boot_weights where rep % 2 = 1) as w
)
order by id, rep
