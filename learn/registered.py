"""Registered: an Arrow table visible to SQL under a name for the length of a `with` block; and our own queries.

Invariant: Python binds names and parameters, the statements live in `learn/queries/*.sql`.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import duckdb
import pyarrow as pa


@cache
def query(name: str) -> str:
    """Text of `learn/queries/<name>.sql`."""
    return files("learn").joinpath("queries", f"{name}.sql").read_text(encoding="utf-8")


@cache
def scratch() -> duckdb.DuckDBPyConnection:
    """A connection of this process without any table, for queries over registered ones; opening one takes a while."""
    return duckdb.connect(config={"threads": 1})


class Registered:
    """`with Registered(connection, name, table):` - the name is gone afterwards, also after an error."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
        self.connection, self.name, self.table = connection, name, table

    def __enter__(self) -> None:
        self.connection.register(self.name, self.table)

    def __exit__(self, *_: object) -> None:
        self.connection.unregister(self.name)
