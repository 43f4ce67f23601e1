"""Where: a user's SQL that says what of a credit is trained.

Invariant: it chooses rows after rewards and baselines are known, so it changes what is trained and never what is paid.
It is one SELECT with one column of a known name; `credit_rows` in it are the rows that a method paid. Its text is part
of what a snapshot hashes.

Run: ``sera credit STORE --where my.sql``, ``sera learn --where my.sql ...``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from learn.registered import query
from learn.rule import one_select, one_select_of
from sera_data.canonical import sha256_text
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
    statement = one_select_of(where.sql, what=f"where {where.name}")
    if statement.named_parameters:
        names = ", ".join("$" + name for name in sorted(statement.named_parameters))
        msg = f"where {where.name} has parameters: {names}"
        raise ConfigError(msg, hint="write the values into the SQL, so that its hash says what was trained")


def apply_where(own: duckdb.DuckDBPyConnection, where: Where) -> None:
    """Set `selected` in `credited` to what the SQL names; ConfigError for SQL that does not run or name one thing."""
    _require_plain(where)
    own.execute(query("where_rows"))
    try:
        own.execute(f"create or replace temp table where_part as\n{where.sql}")
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        msg = f"where {where.name} does not run: {' '.join(str(error).split())}"
        raise ConfigError(msg) from None
    columns = own.sql("from where_part limit 0").columns
    if len(columns) != 1 or columns[0] not in COLUMNS:
        msg = f"where {where.name} returns {', '.join(columns)}; allowed is one column: {', '.join(COLUMNS)}"
        raise ConfigError(msg, hint="for example: select group_id from credit_rows where stage = 'execution'")
    own.execute(query("where_apply"), {"column": columns[0]})
    own.execute("drop view credit_rows")
    own.execute("drop table where_part")
