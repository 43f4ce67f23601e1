"""`sera data sql`: one query over the tables and views of a store.

Invariant: a query changes nothing: whatever is not one reading statement is refused before it runs.

Run: ``sera data sql STORE "select ..."``.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sera_data.errors import UsageError
from sera_data.rows_format import Format, write_rows
from sera_data.store_argument import Json, StorePath, open_path


class ViewName(StrEnum):
    """Views of a store."""

    live = "live"
    sealed = "sealed"


def sql(
    store: StorePath,
    query: Annotated[str, typer.Argument(help="A query over the tables and views, or @FILE.sql.")],
    fmt: Annotated[Format, typer.Option("--format", help="How to print the rows.")] = Format.table,
    output: Annotated[Path | None, typer.Option(help="File to write; needed for parquet.")] = None,
    view: Annotated[ViewName, typer.Option(help="live: committed shards too; sealed: sealed only.")] = ViewName.live,
    snapshot: Annotated[str | None, typer.Option(help="Read what this snapshot names.")] = None,
    as_json: Json = False,
) -> None:
    """Run a DuckDB query; `sera data describe` names the tables and views.

    Example: sera data sql runs/demo/store "select epoch, purpose, success from progress order by all" --format csv
    """
    from sera_data.query import run_query

    text = _query(query)
    fmt = Format.json if as_json else fmt
    if fmt is Format.parquet and output is None:
        msg = "--format parquet needs --output FILE.parquet"
        raise UsageError(msg)
    connection = open_path(store).connect(view=view.value, snapshot=snapshot)
    frame = run_query(connection, text, path=store)
    write_rows(frame, fmt, output)


def _query(query: str) -> str:
    """The text itself, or that of @FILE."""
    if not query.startswith("@"):
        try:
            query.encode()
        except UnicodeEncodeError:
            msg = f"the query must be UTF-8, got {query[:60]!a}"
            raise UsageError(msg) from None
        return query
    try:
        return Path(query[1:]).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        msg = f"query file {query[1:]!r} cannot be read: {error}"
        raise UsageError(msg, hint="name a UTF-8 file with one query, or give the query itself") from None
