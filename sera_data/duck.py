"""DuckDB connections over a listing: the tables and the derived views by name.

Invariant: a view lists its files explicitly and has exactly the columns of `schemas/`; columns that older files lack
are null. The views work on an empty store. `tasks` is distinct over epochs; `task_rows` are the rows as stored. Which
tasks are held out of training is said once, by the macro `held_out`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from schemas import SCHEMA_VERSION, TABLES
from sera_data.damage import remember, require_sound
from sera_data.errors import StoreError
from sera_data.place import in_objects
from sera_data.stops import interruptible

if TYPE_CHECKING:
    from schemas.table import Table
    from sera_data.listing import Listing

RAW = {"tasks": "task_rows"}
"""Tables whose raw rows have another name than the table, because a derived view takes that one."""

VIEWS = (
    "tasks",
    "factual",
    "verdict_scopes",
    "verdicts",
    "audit_verdicts",
    "scored",
    "pairs",
    "leaves",
    "trees",
    "costs",
    "progress",
)
"""Derived views in the order in which they build on each other; each is `views/<name>.sql`."""

_WORD = re.compile(r"\w+")
_OPEN = re.compile(
    r"\b(show|describe|summarize|pragma|query|query_table|information_schema|duckdb_\w+|sqlite_\w+)\b", re.IGNORECASE
)
"""Words of queries that may look at views which they do not name."""

_SCALARS = {
    pa.string(): "VARCHAR",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.timestamp("us", tz="UTC"): "TIMESTAMPTZ",
}


def connect_empty() -> duckdb.DuckDBPyConnection:
    """An in-memory connection that never asks the network for an extension and speaks UTC."""
    offline: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    connection = interruptible(duckdb.connect(config=offline))
    connection.execute("set TimeZone = 'UTC'")
    connection.execute("set parquet_metadata_cache = true")  # published files never change: read each footer once
    return connection


def reach(connection: duckdb.DuckDBPyConnection, listing: Listing) -> None:
    """Let the connection read files in object storage, if the listing has any, through our own client."""
    if any(in_objects(path) for source in listing.sources for _, path, _, _ in source.files):
        from sera_data.published_files import PublishedFiles

        connection.register_filesystem(PublishedFiles())


def connect(
    listing: Listing, *, held_out: float | None = None, queries: Sequence[str] | None = None
) -> duckdb.DuckDBPyConnection:
    """An in-memory connection whose views read the listing's files.

    held_out: only rows of the tasks that this share (0 to 1) holds out of training; tables without tasks are whole.
    queries: what will be asked, so that only the derived views that it may read are created; all of them by default.
    """
    connection = connect_tables(listing)
    if held_out is not None:
        for table in TABLES.values():
            if any(column.name == "task_id" for column in table.columns):
                rows = f"select * from ({select_table(table, listing)}) where held_out(task_id, {held_out:.17g})"
                connection.execute(f"create or replace view {RAW.get(table.name, table.name)} as {rows}")
    add_views(connection, "show" if queries is None else "\n".join(queries), set())
    return connection


def add_views(connection: duckdb.DuckDBPyConnection, query: str, made: set[str]) -> None:
    """Create the derived views that a query may read, apart from those `made` already, and note them there.

    DuckDB binds a view with all that it reads when it is created: all of them take longer than most queries.
    """
    wanted = set(VIEWS) if _OPEN.search(query) else views_of(query)
    for name in VIEWS:
        if name in wanted - made:
            connection.execute(f"create view {name} as {view_sql(name)}")
            made.add(name)


def views_of(query: str) -> set[str]:
    """The derived views whose names are words of a query, and those that they are built on."""
    named = {word.lower() for word in _WORD.findall(query)} & set(VIEWS)
    return named.union(*map(_built_on, named))


@cache
def _built_on(name: str) -> frozenset[str]:
    """Views before this one in VIEWS that its text names, and theirs."""
    before = set(VIEWS[: VIEWS.index(name)])
    named = set(_WORD.findall(view_sql(name))) & before
    return frozenset(named).union(*map(_built_on, named))


def confine(connection: duckdb.DuckDBPyConnection, listing: Listing) -> None:
    """Let the connection read the listing's files and no other file from now on, whatever a query names.

    For queries that came from somebody else, such as a credit file. It cannot be undone on this connection.
    """
    paths = ", ".join(_quoted(str(path)) for name in TABLES for path in listing.files(name))
    connection.execute(f"set allowed_paths = [{paths}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def connect_tables(listing: Listing) -> duckdb.DuckDBPyConnection:
    """The same without the derived views: rows as stored, `task_rows` for tasks."""
    connection = connect_empty()
    connection.execute(files("sera_data").joinpath("macros", "held_out.sql").read_text(encoding="utf-8"))
    reach(connection, listing)
    remember(connection, listing)
    try:
        for table in TABLES.values():
            connection.execute(f"create view {RAW.get(table.name, table.name)} as {select_table(table, listing)}")
    except duckdb.Error as error:
        require_sound(connection)
        fault = " ".join(str(error).partition("\n")[0].split())
        msg = (
            f"the files of store {listing.store} are as they were written, but not of schema {SCHEMA_VERSION}: {fault}"
        )
        raise StoreError(msg, hint="sera data verify STORE names file and column; another release wrote it") from None
    return connection


@cache
def view_sql(name: str) -> str:
    """Text of a derived view."""
    return files("sera_data").joinpath("views", f"{name}.sql").read_text(encoding="utf-8")


def view_doc(name: str) -> str:
    """The comment at the head of a derived view: what a row is and what its columns mean."""
    return " ".join(line[2:].strip() for line in view_sql(name).splitlines() if line.startswith("--"))


def select_table(table: Table, listing: Listing) -> str:
    """SQL that selects a table's rows from the listing's files, one `read_parquet` per schema version."""
    by_version: dict[tuple[str, int], list[str]] = {}
    for source in listing.sources:
        paths = [_quoted(str(path)) for name, path, rows, _ in source.files if name == table.name and rows]
        by_version.setdefault((source.schema_version, source.shift), []).extend(paths)
    columns = ", ".join(_name(c.name) for c in table.columns)
    current = by_version.pop((SCHEMA_VERSION, 0), [])
    rest = [(shift, paths) for (_, shift), paths in sorted(by_version.items()) if paths]
    parts = [] if current and not rest else [_no_rows(table)]
    parts += [f"select {columns} from {_read(current)}"] if current else []
    parts += [f"select {_shifted(shift)} from {_read(paths)}" for shift, paths in rest]
    return parts[0] if len(parts) == 1 else f"select {columns} from ({' union all by name '.join(parts)})"


def duckdb_type(kind: pa.DataType) -> str:
    """DuckDB's name of an Arrow type of the schemas."""
    if pa.types.is_list(kind):
        return duckdb_type(kind.value_type) + "[]"
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{_name(f.name)} {duckdb_type(f.type)}' for f in kind)})"
    return _SCALARS[kind]


def _shifted(shift: int) -> str:
    """All columns, with the epochs of another store moved out of the way of this one's."""
    return f"* replace ((epoch + {shift})::integer as epoch)" if shift else "*"


def _no_rows(table: Table) -> str:
    nulls = ", ".join(f"null::{duckdb_type(c.type)} as {_name(c.name)}" for c in table.columns)
    return f"select {nulls} where false"


def _read(paths: list[str]) -> str:
    return f"read_parquet([{', '.join(paths)}], hive_partitioning = false)"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(text: str) -> str:
    return '"' + text + '"'


def ordered_batches(
    connection: duckdb.DuckDBPyConnection, table: Table, order: Sequence[str], *, source: str | None = None
) -> Iterator[pa.RecordBatch]:
    """All rows of a table (or of the relation `source`) in order, as record batches of the table's schema.

    DuckDB sorts and spills to disk when the rows do not fit in memory.
    """
    relation = source or RAW.get(table.name, table.name)
    query = f"select * from {relation} order by {', '.join(_name(c) for c in order)}"
    schema = pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in table.columns])
    for batch in connection.sql(query).to_arrow_reader(table.row_group):
        columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
