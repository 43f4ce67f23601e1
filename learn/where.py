"""Where: a user's SQL that says what of a credit is trained.

Invariant: it chooses rows after rewards and baselines are known, so it changes what is trained and never what is paid.
It is one SELECT with one column of a known name; `credit_rows` in it are the rows that a method paid. Its text is part
of what a snapshot hashes.

Run: ``sera credit STORE --where my.sql``, ``sera learn --where my.sql ...``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from learn.registered import query
from learn.rule import one_select, one_select_of
from sera_data.canonical import sha256_text
from sera_data.damage import blaming
from sera_data.errors import ConfigError

COLUMNS = ("group_id", "tree_id", "node_id", "trajectory_id", "turn_id")


@dataclass(frozen=True, slots=True)
class Where:
    """The text of a where file; `name` is what it is called in messages."""

    name: str
    sql: str

    def __str__(self) -> str:
        return self.name

    @property
    def sha256(self) -> str:
        """Hash of the text."""
        return sha256_text(self.sql)


def read_where(path: Path) -> Where:
    """Read a file; ConfigError when it is not one SELECT without parameters."""
    if not path.is_file():
        msg = f"where file not found: {path}"
        raise ConfigError(msg, hint="name an existing .sql file")
    one_select(path, what="where")
    where = Where(str(path), path.read_text(encoding="utf-8"))
    _require_plain(where)
    return where


def _require_plain(where: Where) -> None:
    require_plain(where.sql, what=f"where {where.name}")


def require_plain(sql: str, *, what: str) -> None:
    """ConfigError unless it is one SELECT without parameters."""
    statement = one_select_of(sql, what=what)
    if statement.named_parameters:
        names = ", ".join("$" + name for name in sorted(statement.named_parameters))
        msg = f"{what} has parameters: {names}"
        raise ConfigError(msg, hint="write the values into the SQL, so that its hash says what was chosen")


def apply_where(own: duckdb.DuckDBPyConnection, where: Where) -> None:
    """Set `selected` in `credited` to what the SQL names; ConfigError for SQL that does not run or name one thing."""
    own.execute(query("where_rows"))
    example = "select group_id from credit_rows where stage = 'execution'"
    column = name_rows(own, where.sql, what=f"where {where.name}", columns=COLUMNS, example=example)
    own.execute(query("where_apply"), {"column": column})
    own.execute("drop view credit_rows")
    own.execute("drop table where_part")


def name_rows(
    connection: duckdb.DuckDBPyConnection, sql: str, *, what: str, columns: Sequence[str], example: str
) -> str:
    """Make the table `where_part` of what the SQL names, and return its one column, which must be one of `columns`.

    what: how messages call the SQL. ConfigError for SQL that does not run or names something else.
    """
    require_plain(sql, what=what)
    try:
        with blaming(connection):
            connection.execute(f"create or replace temp table where_part as\n{sql}")
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        msg = f"{what} does not run: {' '.join(str(error).split())}"
        raise ConfigError(msg) from None
    found = connection.sql("from where_part limit 0").columns
    if len(found) != 1 or found[0] not in columns:
        msg = f"{what} returns {', '.join(found)}; allowed is one column: {', '.join(columns)}"
        raise ConfigError(msg, hint=f"for example: {example}")
    return str(found[0])
