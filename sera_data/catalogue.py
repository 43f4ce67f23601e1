"""What a store's tables and views are called, hold and mean, for people who ask in SQL.

Invariant: every column of every table and view has a meaning here: tables bring theirs from `schemas/`, views theirs
from `views/*.sql` (the comment at the head) and `views/columns.yaml`.

Run: ``sera data describe``, or ``.describe scored`` in ``sera data shell``.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import yaml

from schemas import TABLES
from sera_data.duck import RAW, VIEWS, connect, view_doc
from sera_data.errors import UsageError

if TYPE_CHECKING:
    import duckdb

    from sera_data.listing import Listing


def relations() -> dict[str, str]:
    """Every table and view that SQL can name, with one sentence on what it holds."""
    tables = {RAW.get(name, name): table.doc.strip().partition("\n")[0] for name, table in TABLES.items()}
    return {**tables, **{name: view_doc(name) for name in VIEWS}}


def require_relation(name: str) -> None:
    """UsageError for a name that is neither a table nor a view."""
    known = relations()
    if name not in known:
        msg = f"no table or view {name!r}; there are: {', '.join(known)}"
        raise UsageError(msg, hint="sera data describe says what they hold")


def meaning(relation: str, column: str) -> str:
    """What a column of a table or view means; KeyError when nobody wrote it down."""
    view = _views().get(relation)
    if view is None or column not in view:
        return _table_meaning(relation if view is None else str(view["like"]), column)
    return str(view[column])


def columns(connection: duckdb.DuckDBPyConnection, relation: str) -> list[dict[str, str]]:
    """Columns of a table or view with DuckDB's type and their meaning."""
    rows = connection.table(relation)
    return [
        {"column": name, "type": str(kind), "doc": meaning(relation, name)}
        for name, kind in zip(rows.columns, rows.types, strict=True)
    ]


def table_facts(name: str, listing: Listing | None) -> dict[str, Any]:
    """A table with its columns and, given a listing, its recorded rows, bytes and files."""
    table = TABLES[name]
    facts: dict[str, Any] = {"table": name, "doc": table.doc.strip().partition("\n")[0], "key": list(table.key)}
    facts["columns"] = [
        {
            "column": c.name,
            "type": str(c.type),
            "nullable": c.nullable,
            "volatile": c.volatile,
            "values": list(c.values),
            "doc": c.doc,
        }
        for c in table.columns
    ]
    if listing is not None:
        facts.update(rows=listing.rows(name), bytes=listing.bytes(name), files=len(listing.files(name)))
    return facts


def view_facts(names: list[str], listing: Listing | None) -> list[dict[str, Any]]:
    """Views with their columns and, given a listing, their rows."""
    from pathlib import Path

    from sera_data.listing import Listing as Files

    connection = connect(Files(Path()) if listing is None else listing)
    found = []
    for name in names:
        facts: dict[str, Any] = {"view": name, "doc": view_doc(name), "columns": columns(connection, name)}
        if listing is not None:
            ((facts["rows"],),) = connection.table(name).aggregate("count(*)").fetchall()
        found.append(facts)
    return found


@cache
def _views() -> dict[str, dict[str, str]]:
    return yaml.safe_load(files("sera_data").joinpath("views", "columns.yaml").read_text(encoding="utf-8"))


def _table_meaning(relation: str, column: str) -> str:
    names = {raw: name for name, raw in RAW.items()}
    return TABLES[names.get(relation, relation)].column(column).doc
