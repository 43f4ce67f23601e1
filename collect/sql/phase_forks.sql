-- Forked delegations of one phase: complete groups of k > 1 branches, and those whose branches do not all end alike.
with
forks as (
    select b.delegation_id, min(v.value) as lowest, max(v.value) as highest
    from branches as b
    left join verdicts as v on v.node_id = b.node_id
    where b.run_id = $run_id and b.epoch = $epoch and b.k > 1 and b.complete
    group by b.delegation_id
)
select count(*) as forked, count(*) filter (lowest <> highest) as mixed from forks
