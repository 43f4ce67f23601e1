-- What the trees of a store used, one row per purpose, task and role: calls, prompt tokens read, those that no cache
-- had, completion tokens, tokens kept in the store. Role 'agents' counts nodes, 'judge' the votes of judges. n_trees is
-- the number of trees of that purpose and task. Turns without token ids count by what their endpoint said, else 0.
with
played as (
    select purpose, task_id, epoch, count(distinct tree_id) as n_trees, count(*) as n_nodes
    from nodes group by all
),
spoken as (
    select n.purpose, n.task_id, n.epoch, t.role,
        count(*) as calls,
        coalesce(sum(t.n_prompt), 0) as read,
        coalesce(sum(t.n_prompt - coalesce(t.n_cached, 0)), 0) as fresh,
        coalesce(sum(len(t.completion_ids)), 0) as written,
        coalesce(sum(len(t.prompt_ids)), 0) + coalesce(sum(len(t.completion_ids)), 0) as stored
    from turns as t join nodes as n on n.node_id = t.node_id
    group by all
),
judged as (
    select n.purpose, n.task_id, n.epoch, 'judge' as role,
        count(*) as calls,
        coalesce(sum(l.prompt_tokens), 0) as read,
        coalesce(sum(l.prompt_tokens), 0) as fresh,
        coalesce(sum(l.completion_tokens), 0) as written,
        0 as stored
    from labels as l join nodes as n on n.node_id = l.node_id
    where l.kind = 'judge'
    group by all
),
agents as (
    select purpose, task_id, epoch, 'agents' as role, n_nodes as calls, 0 as read, 0 as fresh, 0 as written, 0 as stored
    from played
),
used as (from spoken union all by name from judged union all by name from agents),
-- a role that a task's trees never called counts 0 there, not nothing
roles as (select distinct purpose, role from used)
select p.purpose, r.role, p.n_trees,
    coalesce(u.calls, 0)::double as calls, coalesce(u.read, 0)::double as read, coalesce(u.fresh, 0)::double as fresh,
    coalesce(u.written, 0)::double as written, coalesce(u.stored, 0)::double as stored
from played as p
join roles as r on r.purpose = p.purpose
left join used as u
    on u.purpose = p.purpose and u.task_id = p.task_id and u.epoch = p.epoch and u.role = r.role
where p.purpose in ('execution', 'delegation', 'rubric')
order by p.purpose, r.role, p.epoch, p.task_id
