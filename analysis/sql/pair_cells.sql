-- Sums per slice and block over audited pairs, and over their groups (delegation, rubric, scorer), each group as its mean.
-- The margin is compared with an epsilon: 0.7 - 0.5 is 0.19999999999999996 and does satisfy a margin of 0.2.
-- Parts of the data are added up in at most $coarse_blocks blocks, the whole in all; tasks: how many a cell is made of.
-- Gaps, hinges and means are in units of 1e-9, so that sums are whole numbers and the same in any order.
create or replace temp table pair_cells as
with
scored_pair as (
    select
        *,
        case when gap > 1e-9 then 2 when gap >= -1e-9 then 1 else 0 end as halves,
        (gap > 1e-9)::int as strict,
        (abs(gap) <= 1e-9)::int as tie,
        (gap < $margin - 1e-9)::int as violation,
        (greatest(0, $margin - gap) * 1e9)::bigint as hinge,
        (gap * 1e9)::bigint as nano_gap
    from audit_pairs
),
grouped as (
    select
        group_id, by_whom, valid, count(*) as pairs, sum(halves) as halves, sum(strict) as strict, sum(tie) as tie,
        sum(violation) as violation, sum(hinge) as hinge, sum(nano_gap) as gap
    from scored_pair
    group by group_id, by_whom, valid
),
measured as (
    select
        g.*, l.depth, l.difficulty, l.epoch, l.world, l.length_tenth, b.task, b.block,
        b.block % $coarse_blocks as coarse_block,
        (5e8 * halves / pairs)::bigint as group_half, (1e9 * strict / pairs)::bigint as group_strict,
        (1.0 * hinge / pairs)::bigint as group_hinge,
        coalesce((1e9 * t.spearman)::bigint, 0) as group_spearman, coalesce((1e9 * t.kendall)::bigint, 0) as group_kendall
    from grouped as g
    join audit_groups as l on l.group_id = g.group_id
    join boot_blocks as b on b.task_id = l.task_id
    left join audit_group_ranks as t on t.group_id = g.group_id and t.by_whom = g.by_whom
    where g.valid
),
sliced as (
    select
        grouping_id(depth, difficulty, epoch, world, length_tenth) as part,
        depth, difficulty, epoch, world, length_tenth, coalesce(block, coarse_block) as block,
        count(distinct task) as tasks, sum(pairs) as pairs, sum(halves) as halves, sum(strict) as strict,
        sum(tie) as tie, sum(violation) as violation,
        sum(hinge) as hinge, sum(gap) as gap, count(*) as groups, sum(group_half) as group_half,
        sum(group_strict) as group_strict, sum(group_hinge) as group_hinge,
        sum(group_spearman) as group_spearman, sum(group_kendall) as group_kendall
    from measured
    group by grouping sets (
        (block), (coarse_block, depth), (coarse_block, difficulty), (coarse_block, epoch), (coarse_block, world),
        (coarse_block, length_tenth)
    )
),
worst_groups as (
    select
        group_id, sum(pairs) as pairs, sum(halves) as halves, sum(strict) as strict, sum(tie) as tie,
        sum(violation) as violation, sum(hinge) as hinge, sum(gap) as gap
    from grouped
    where not (select bool_and(valid) from audit_scored)
    group by group_id, by_whom
)
select
    case part when 31 then 'all' when 15 then 'depth' when 23 then 'difficulty' when 27 then 'epoch' when 29 then 'world'
    else 'length' end as slice,
    case part when 31 then 'all' when 15 then depth::varchar when 23 then difficulty when 27 then epoch::varchar
    when 29 then world else length_tenth::varchar end as level,
    sliced.* exclude (part, depth, difficulty, epoch, world, length_tenth)
from sliced
where part <> 29 or (select count(distinct world) from audit_groups) > 1
union all by name
select
    'worst' as slice, 'all' as level, b.block, count(distinct b.task) as tasks, sum(pairs) as pairs,
    sum(halves) as halves, sum(strict) as strict, sum(tie) as tie, sum(violation) as violation,
    sum(hinge) as hinge, sum(gap) as gap, count(*) as groups,
    sum((5e8 * halves / pairs)::bigint) as group_half, sum((1e9 * strict / pairs)::bigint) as group_strict,
    sum((1.0 * hinge / pairs)::bigint) as group_hinge, 0 as group_spearman, 0 as group_kendall
from worst_groups as g
join audit_groups as l on l.group_id = g.group_id
join boot_blocks as b on b.task_id = l.task_id
group by b.block
