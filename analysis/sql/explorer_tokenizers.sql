-- Hashes of the tokenizers that act, write and score, most rows first.
select p.tokenizer_sha256 as sha256, count(*) as n
from (select unnest(policies) as p from runs)
where p.tokenizer_sha256 is not null
group by 1 order by n desc, sha256
