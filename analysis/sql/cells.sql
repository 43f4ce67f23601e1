-- Everything that the bootstrap adds up, as long rows: one number per family, slice, level, key, name and block.
-- coarse: a part of the data, added up in at most $coarse_blocks blocks (score_cells, pair_cells; judges here).
create or replace temp table audit_cells as
with long as (
select 'score' as family, * from (unpivot score_cells on n, a, s into name name value value)
union all by name
select 'pair' as family, 0 as key, * from (
    unpivot pair_cells on
        pairs, halves, strict, tie, violation, hinge, gap, groups, group_half, group_strict, group_hinge,
        group_spearman, group_kendall
    into name name value value
)
union all by name
select 'drift' as family, 0 as key, * from (
    unpivot drift_cells on changes, d_score, d_success into name name value value
)
union all by name
select 'item' as family, * from (unpivot item_cells on n, y, s, ss, sy, passed, passed_y into name name value value)
union all by name
select 'leak' as family, 0 as key, * from (
    unpivot leak_cells on
        residual_y_n, residual_y, residual_n_n, residual_n, n1, s1, ss1, l1, ll1, sl1, n0, s0, ss0, l0, ll0, sl0,
        idle_n, idle_s, own_n, own_error, other_n, other_error, top
    into name name value value
)
union all by name
select 'judge' as family, * from (
    unpivot judge_cells on
        votes, invalid, nodes, same, judge_yes, program_yes, both_yes, repeats, agreeing, repeat_votes, repeat_yes,
        voted, voted_yes
    into name name value value
)
)
select
    family, slice, level, key, name,
    case when family <> 'judge' or slice = 'all' then block else block % $coarse_blocks end as block,
    slice not in ('all', 'worst', 'drift', 'item') as coarse, value
from long
where value <> 0
