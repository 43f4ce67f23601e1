-- Tokenizers of the policies that served acting, writing or scoring, with a policy that used each.
select any_value(policy.name) as name, policy.tokenizer_sha256
from (select unnest(policies) as policy from runs where phase in ('collect', 'refresh'))
where policy.role in ('act', 'writer', 'scorer') and policy.tokenizer_sha256 is not null
group by policy.tokenizer_sha256
order by policy.tokenizer_sha256
