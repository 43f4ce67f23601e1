"""Tasks chosen by SQL on a store: what to play by what was seen, such as tasks whose success lies between 0.2 and 0.8.

Invariant: the SQL reads the sealed epochs of its store and no other file; it returns task ids in a column `task_id`.
Its text is part of the configuration, so it is in the run's id and in what a snapshot hashes.

Run: ``sera collect --tasks-sql my.sql --tasks-store runs/old/store ...``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from collect.world import Task
from sera_data.errors import ConfigError

if TYPE_CHECKING:
    import duckdb

    from collect.world_config import TaskQuery

FIELDS = ("task_id", "world", "profile", "split", "difficulty", "goal", "spec", "family", "seed", "upstream_id")


def chosen_ids(query: TaskQuery) -> set[str]:
    """The ids that the SQL returns; ConfigError for SQL that does not run or returns no `task_id`."""
    with _connect(query) as connection:
        return _ids(connection, query)


def stored_tasks(query: TaskQuery) -> list[Task]:
    """The chosen tasks as the store holds them."""
    with _connect(query) as connection:
        ids = _ids(connection, query)
        rows = connection.sql("from tasks order by task_id").select(*FIELDS).fetchall()
    found = [dict(zip(FIELDS, row, strict=True)) for row in rows if row[0] in ids]
    return [Task(**{**row, "spec": json.loads(row["spec"])}) for row in found]


def _connect(query: TaskQuery) -> duckdb.DuckDBPyConnection:
    import sera_data

    return sera_data.open(query.store).connect(view="sealed", files="own")


def _ids(connection: duckdb.DuckDBPyConnection, query: TaskQuery) -> set[str]:
    from sera_data.query import run_query

    rows = run_query(connection, query.sql, path=query.store)
    if "task_id" not in rows.columns:
        got = ", ".join(rows.columns)
        msg = f"the tasks SQL returns {got}; it must return a column task_id"
        raise ConfigError(msg, hint="for example: select task_id from trees group by task_id having avg(success) < 0.8")
    ids = {str(value) for value in rows["task_id"] if value is not None}
    if not ids:
        msg = f"the tasks SQL chose no task of store {query.store}"
        raise ConfigError(msg, hint=f'look at what it finds: sera data sql {query.store} "..."')
    return ids
