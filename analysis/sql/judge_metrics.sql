-- Agreement of each rater with the program, and with itself, per slice and bootstrap replicate (replicate 0: the data).
--   kappa = (po - pe) / (1 - pe), po = share of equal verdicts, pe = j p + (1 - j) (1 - p) from both rates (Cohen 1960)
--   sensitivity = judge's yes among the program's yes; specificity = judge's no among the program's no
--   repeat_agreement = mean over nodes of the share of agreeing pairs of votes; repeat_kappa corrects it for chance with
--   the share q of yes among those votes, pe = q^2 + (1 - q)^2 (Fleiss 1971)
--   corrected_rate = (q + specificity - 1) / (sensitivity + specificity - 1), q = the rater's rate of success over all nodes
--   that it judged: the success rate that its errors hide (Rogan and Gladen 1978)
create or replace temp table judge_metrics as
with
summed as (
    pivot (select slice, level, key, rep, name, value from boot_sums where family = 'judge')
    on name in (
        'votes', 'invalid', 'nodes', 'same', 'judge_yes', 'program_yes', 'both_yes', 'repeats', 'agreeing',
        'repeat_votes', 'repeat_yes', 'voted', 'voted_yes'
    )
    using sum(value)
),
total as (
    select
        kind, source, version, slice, level, rep,
        nullif(votes, 0) as votes, coalesce(invalid, 0) as invalid,
        nullif(nodes, 0) as nodes, coalesce(same, 0) as same,
        coalesce(judge_yes, 0) as judge_yes, coalesce(program_yes, 0) as program_yes, coalesce(both_yes, 0) as both_yes,
        nullif(repeats, 0) as repeats, coalesce(agreeing, 0) / 1e9 as agreeing,
        nullif(repeat_votes, 0) as repeat_votes, coalesce(repeat_yes, 0) as repeat_yes,
        coalesce(voted_yes, 0) / nullif(voted, 0) as voted_rate
    from summed
    join judge_raters using (key)
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
),
recognised as (
    select
        *,
        both_yes / nullif(program_yes, 0) as sensitivity,
        (nodes - judge_yes - program_yes + both_yes) / nullif(nodes - program_yes, 0) as specificity
    from chance
)
select
    kind, source, version, slice, level, rep,
    (agreement - pe) / nullif(1 - pe, 0) as kappa,
    agreement, judge_rate, program_rate, sensitivity, specificity,
    case when sensitivity + specificity > 1 + 1e-9
        then least(greatest((voted_rate + specificity - 1) / (sensitivity + specificity - 1), 0), 1) end as corrected_rate,
    repeat_agreement,
    (repeat_agreement - repeat_pe) / nullif(1 - repeat_pe, 0) as repeat_kappa,
    invalid / votes as invalid_share
from recognised
