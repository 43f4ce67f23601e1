-- What a method's judgements and tokens cost, per tree and per success: the SERA paper's Table 2 as a query.
-- One row per level ('all', 'method', 'epoch') and measure. The method of an epoch is the one its updates name (null
-- before any). Evaluation trees are left out. A tree succeeds when its root's train verdict is 1.
-- verifier calls: program labels, off-path nodes too. judge calls: one per vote, and per act of a judge that selects
-- branches; a request that was repeated after a network fault counts once. Tokens read are whole prompts, as an engine
-- without a prefix cache reads them; turns of policies without token ids count what their server says, if it does.
with
methods as (
    select epoch, string_agg(distinct method, '+' order by method) as method from updates group by epoch
),
kept as (select node_id, epoch from nodes where purpose <> 'eval'),
epochs as (select distinct k.epoch, m.method from kept as k left join methods as m on m.epoch = k.epoch),
played as (
    select epoch, count(*) as n_trees, count(*) filter (where success = 1) as n_success
    from trees where purpose <> 'eval' group by epoch
),
judged as (
    select l.epoch, case l.kind when 'program' then 'verifier' else l.kind end as who,
        count(*) as calls,
        coalesce(sum(l.prompt_tokens), 0) as tokens_read, coalesce(sum(l.completion_tokens), 0) as tokens_written
    from labels as l semi join kept as k on k.node_id = l.node_id
    group by l.epoch, who
),
spoken as (
    select t.epoch, t.role as who,
        count(*) as calls,
        coalesce(sum(t.n_prompt), 0) as tokens_read, coalesce(sum(coalesce(len(t.completion_ids), t.n_completion)), 0) as tokens_written
    from turns as t semi join kept as k on k.node_id = t.node_id
    group by t.epoch, t.role
),
used as (
    select epoch, who, sum(calls) as calls, sum(tokens_read) as tokens_read, sum(tokens_written) as tokens_written
    from (from judged union all from spoken) group by epoch, who
),
who as (select unnest(['verifier', 'judge', 'human', 'act', 'writer', 'scorer']) as who, generate_subscripts(
    ['verifier', 'judge', 'human', 'act', 'writer', 'scorer'], 1) as place),
cells as (
    select e.method, e.epoch, p.n_trees, p.n_success, w.who, w.place,
        coalesce(u.calls, 0) as calls, coalesce(u.tokens_read, 0) as tokens_read,
        coalesce(u.tokens_written, 0) as tokens_written
    from epochs as e
    left join played as p on p.epoch = e.epoch
    cross join who as w
    left join used as u on u.epoch = e.epoch and u.who = w.who
),
sums as (
    select
        case grouping(method, epoch) when 0 then 'epoch' when 1 then 'method' else 'all' end as level,
        method, epoch, who, place,
        sum(n_trees)::bigint as n_trees, sum(n_success)::bigint as n_success,
        sum(calls)::bigint as calls, sum(tokens_read)::bigint as tokens_read,
        sum(tokens_written)::bigint as tokens_written
    from cells group by grouping sets ((method, epoch, who, place), (method, who, place), (who, place))
),
measures as (
    select *, who || ' calls' as measure, calls as total, 0 as part from sums
    union all
    select *, who || ' tokens read', tokens_read, 1 from sums where who not in ('verifier', 'human')
    union all
    select *, who || ' tokens written', tokens_written, 2 from sums where who not in ('verifier', 'human')
)
select level, method, epoch, n_trees, n_success, measure, total,
    total / nullif(n_trees, 0) as per_tree, total / nullif(n_success, 0) as per_success
from measures
order by case level when 'all' then 0 when 'method' then 1 else 2 end, method, epoch, place, part
