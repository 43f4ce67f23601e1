"""`runs`: who wrote a shard, with which config, code and policies. One row per shard.

Invariant: a shard's row holds everything needed to repeat the shard (resolved config, policy hashes,
code version); secrets never enter the config.
"""

from schemas.table import INT32, STRING, TIME, Column, Table, list_of, provenance, struct_of
from schemas.words import SHARD_PHASES

POLICY = struct_of(
    role=STRING,
    name=STRING,
    weights_sha256=STRING,
    tokenizer_sha256=STRING,
    template_sha256=STRING,
    engine=STRING,
    version=INT32,
)

RUNS = Table(
    name="runs",
    doc=__doc__ or "",
    key=("run_id", "shard_id"),
    sort=("run_id", "shard_id"),
    columns=(
        *provenance(),
        Column("phase", STRING, "Kind of work the shard holds.", values=SHARD_PHASES),
        Column("schema_version", STRING, "SCHEMA_VERSION of the writer."),
        Column("code_version", STRING, "Version of the package, with the git revision when known."),
        Column("config", STRING, "Resolved configuration as sorted JSON, without secrets."),
        Column("config_hash", STRING, "sha256 of `config`."),
        Column(
            "policies",
            list_of(POLICY),
            "One element per role served: role (act|writer|scorer|judge), name, sha256 of weights, tokenizer and"
            " chat template (null for policies without them), engine, policy version.",
        ),
        Column("hardware", STRING, "CPU/GPU model, cores and memory, as JSON.", nullable=True, volatile=True),
        Column("host", STRING, "Host name.", nullable=True, volatile=True),
        Column("pid", INT32, "Process id.", nullable=True, volatile=True),
        Column("started_at", TIME, "Start of the work unit (UTC).", nullable=True, volatile=True),
        Column("ended_at", TIME, "End of the work unit (UTC).", nullable=True, volatile=True),
    ),
)
