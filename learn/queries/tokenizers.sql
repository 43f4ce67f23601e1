-- Tokenizers of the policies that served the roles whose turns are trained, with a policy that used each.
select any_value(policy.name) as name, policy.tokenizer_sha256
from (select unnest(policies) as policy from runs where phase in ('collect', 'refresh'))
where list_contains($roles, policy.role) and policy.tokenizer_sha256 is not null
group by policy.tokenizer_sha256
order by policy.tokenizer_sha256
