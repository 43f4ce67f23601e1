-- The policies, code and configuration that made the store's collect shards.
select
    p.role, p.name, p.version, p.engine, p.weights_sha256, p.template_sha256,
    any_value(code_version) as code_version, any_value(config_hash) as config_hash,
    any_value(json_extract_string(try_cast(config as json), '$.style')) as style,
    count(*) as shards
from (select unnest(policies) as p, code_version, config_hash, config from runs where phase = 'collect')
group by 1, 2, 3, 4, 5, 6
order by 3, 1
