-- Bytes of the footers of Parquet files: schema, documentation and statistics, which are there without any row.
select coalesce(sum(footer_size), 0)::double as bytes
from parquet_file_metadata($files)
