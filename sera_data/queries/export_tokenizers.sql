-- Hashes of the tokenizers whose ids the act turns of a store hold.
select distinct p.tokenizer_sha256
from (select unnest(policies) as p from runs where phase in ('collect', 'warm'))
where p.role = 'act' and p.tokenizer_sha256 is not null
order by 1
