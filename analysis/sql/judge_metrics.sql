-- Agreement of each rater with the program, and with itself, per slice and bootstrap replicate (replicate 0: the data).
--   kappa = (po - pe) / (1 - pe), po = share of equal verdicts, pe = j p + (1 - j) (1 - p) from both rates (Cohen 1960)
--   sensitivity = judge's yes among the program's yes; specificity = judge's no among the program's no
--   repeat_agreement = mean over nodes of the share of agreeing pairs of votes; repeat_kappa corrects it for chance with
--   the share q of yes among those votes, pe = q^2 + (1 - q)^2 (Fleiss 1971)
create or replace temp table judge_metrics as
with
total as (
    select
        kind, source, version, slice, level, rep,
        sum(weight * votes) as votes, sum(weight * invalid) as invalid,
        nullif(sum(weight * nodes), 0) as nodes, sum(weight * same) as same,
        sum(weight * judge_yes) as judge_yes, sum(weight * program_yes) as program_yes,
        sum(weight * both_yes) as both_yes,
        nullif(sum(weight * repeats), 0) as repeats, sum(weight * agreeing) as agreeing,
        nullif(sum(weight * repeat_votes), 0) as repeat_votes, sum(weight * repeat_yes) as repeat_yes
    from judge_cells
    join boot_weights using (task_id)
    group by kind, source, version, slice, level, rep
),
rates as (
    select
        *,
        judge_yes / nodes as judge_rate,
        program_yes / nodes as program_rate,
        same / nodes as agreement,
        agreeing / repeats as repeat_agreement,
        repeat_yes / repeat_votes as q
    from total
),
chance as (
    select
        *,
        judge_rate * program_rate + (1 - judge_rate) * (1 - program_rate) as pe,
        q * q + (1 - q) * (1 - q) as repeat_pe
    from rates
)
select
    kind, source, version, slice, level, rep,
    (agreement - pe) / nullif(1 - pe, 0) as kappa,
    agreement, judge_rate, program_rate,
    both_yes / nullif(program_yes, 0) as sensitivity,
    (nodes - judge_yes - program_yes + both_yes) / nullif(nodes - program_yes, 0) as specificity,
    repeat_agreement,
    (repeat_agreement - repeat_pe) / nullif(1 - repeat_pe, 0) as repeat_kappa,
    invalid / votes as invalid_share
from chance
