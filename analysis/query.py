"""The audit's SQL files, by name.

Invariant: a metric is written once, in `analysis/sql/NAME.sql`; Python binds parameters and never builds SQL.
Run: ``analysis.query.statement("pair_metrics")`` shows the text of one.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sera_data.damage import require_sound
from sera_data.errors import StoreError

if TYPE_CHECKING:
    import duckdb

SQL = files("analysis") / "sql"


@cache
def statement(name: str) -> str:
    """Text of `analysis/sql/NAME.sql`."""
    return (SQL / f"{name}.sql").read_text(encoding="utf-8")


def rows(con: duckdb.DuckDBPyConnection, name: str, /, **parameters: Any) -> list[dict[str, Any]]:
    """Run one file and return its rows as dicts; [] for a statement that makes a table."""
    import duckdb

    try:
        cursor = con.execute(statement(name), parameters or None)
        found = cursor.fetchall()  # part of the query: files may be read only now
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        require_sound(con)
        if not isinstance(error, duckdb.IOException):
            raise
        msg = f"reading the store failed in {name}.sql: {' '.join(str(error).split())}"
        raise StoreError(msg, hint="sera data verify STORE names every damaged file") from error
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found]


def all_threads(con: duckdb.DuckDBPyConnection) -> None:
    """As many threads as the connection had when this was first asked of it."""
    con.execute("set variable audit_threads = coalesce(getvariable('audit_threads'), current_setting('threads'))")
    ((threads,),) = con.execute("select getvariable('audit_threads')").fetchall()
    con.execute(f"set threads = {int(threads)}")


def counted(con: duckdb.DuckDBPyConnection, name: str, /, **parameters: Any) -> list[dict[str, Any]]:
    """The same on all threads: for files that count and compare, whose result no order can change.

    Files that add fractions go through `rows`, which `measure.prepare` leaves with one thread.
    """
    all_threads(con)
    try:
        return rows(con, name, **parameters)
    finally:
        con.execute("set threads = 1")
