-- One list per number that the bootstrap adds up: its value in every block, in block order, 0 where there is none.
create or replace temp table boot_lists as
with
named as (
    select
        family, slice, level, key, name, coarse,
        (row_number() over (order by family, slice, level, key, name))::int as id
    from (select distinct family, slice, level, key, name, coarse from audit_cells)
),
size as (select coalesce(max(block), -1) + 1 as blocks from boot_blocks),
sparse as (
    select n.id::bigint * z.blocks + c.block as place, sum(c.value)::double as value
    from audit_cells as c
    join named as n using (family, slice, level, key, name)
    cross join size as z
    group by place
),
dense as (
    select n.id, n.id::bigint * z.blocks + b.block as place
    from named as n
    cross join size as z
    join (select distinct block from boot_blocks) as b on not n.coarse or b.block < $coarse_blocks
),
listed as (
    select d.id, list(coalesce(s.value, 0) order by d.place) as blocks
    from dense as d
    left join sparse as s on s.place = d.place
    group by d.id
)
select id, family, slice, level, key, name, coarse, blocks from named join listed using (id) order by id
