"""`tasks`: the root problems, one row per task and epoch in which it was played.

Invariant: `task_id` is a hash of the content (world, profile, spec), so that equal tasks have equal ids
wherever they come from. The DuckDB view `tasks` is distinct over epochs.
"""

from schemas.table import INT64, STRING, Column, Table, provenance

TASKS = Table(
    name="tasks",
    doc=__doc__ or "",
    key=("epoch", "task_id"),
    sort=("epoch", "task_id"),
    columns=(
        *provenance(),
        Column("task_id", STRING, "Content hash of world, profile and spec: 't' + 16 hex digits."),
        Column("world", STRING, "Registered world name, for example 'textcraft'."),
        Column("profile", STRING, "Rule profile of the world, for example 'rao-42' or 'strict'."),
        Column("split", STRING, "train, val, test or the user's own word."),
        Column("difficulty", STRING, "Band name within the world, for example easy|medium|hard|extreme."),
        Column("family", STRING, "Task family within the world; null where the world has none.", nullable=True),
        Column("seed", INT64, "Seed that generated the task; null for imported tasks.", nullable=True),
        Column("goal", STRING, "The goal in words, as shown to the root agent."),
        Column("spec", STRING, "Everything the world needs to reset, as sorted JSON."),
        Column(
            "upstream_id", STRING, "Id in the published file it was imported from; null for our own.", nullable=True
        ),
    ),
)
