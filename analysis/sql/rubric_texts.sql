-- Rubric texts that name what they must not know: words of the answer key, or an id of the task or its tree.
with
written as (
    select
        r.rubric_id, r.task_id, r.tree_id, r.rubric_sha256,
        lower(concat_ws(
            ' ', array_to_string(list_transform(r.items, lambda i: concat_ws(' ', i.name, i.description)), ' '),
            r.success_gate, r.failure_conditions, r.procedure
        )) as text
    from rubrics as r
    where r.phase = 'collect' and r.k = 0 and r.attempt = 0 and r.valid
),
checked as (
    select
        rubric_id, rubric_sha256,
        regexp_extract(
            text,
            '\b(ground[ _-]?truth|gold[ _-](label|answer|state|string)|answer key|verdict|reward|true label|success label|label is|is_success|oracle)\b'
        ) as word,
        contains(text, lower(task_id)) or contains(text, lower(tree_id)) as id
    from written
)
select
    count(*) as rubrics, count(*) filter (word <> '') as with_words, count(*) filter (id) as with_ids,
    count(*) filter (word <> '' or id) as revealing,
    coalesce(string_agg(distinct nullif(word, ''), ', ' order by nullif(word, '')), '') as words,
    count(distinct rubric_sha256) as distinct_texts
from checked
