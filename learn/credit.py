"""Credit: runs a method's SQL on a store connection, checks what it returns and decides which groups can train.

Invariant: credit is a pure function of (rows of the connection, method, where). Every row keeps the contract
(`learn.credit_contract`). A group whose advantages are all 0, whose credited turns have no tokens, or which `where`
leaves out is dropped with its reason and never silently. Rows stay in DuckDB, which spills to disk; only what is asked
for comes to Python.

Run: ``sera credit STORE --method sera``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import duckdb
import polars as pl
import pyarrow as pa

from learn.credit_contract import SCHEMA, check_rows, take_part
from learn.filters import Filters, apply_filters
from learn.registered import Registered, query, scratch
from learn.rule import CREDITS, Method, Rule
from learn.where import Where, apply_where
from schemas.words import Stage
from sera_data.damage import require_sound
from sera_data.errors import ConfigError, StoreError
from sera_data.stops import interruptible

__all__ = ["SCHEMA", "Credit", "Dropped", "compute_credit", "hash_rows"]

ZERO = 1e-9
NOTHING = {
    "execution": "no root with a verdict, or nothing that a reward could be paid to",
    "delegation": "no delegation event, or fewer than two roots with a verdict",
    "rubric": "no complete delegation with valid scores for both a success and a failure",
}
BATCH = 65_536
"""Rows that come to Python at a time."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A group that gives no datum to its stage."""

    stage: Stage
    group_id: str
    reason: str


@dataclass(frozen=True)
class Credit:
    """All validated rows, the groups that can train and those dropped, and the hash of the rows.

    connection: holds the rows as its table `credited`: the columns of SCHEMA, `trainable` (the turn has ids and
    logprobs of an untruncated distribution), `selected` (by where), and facts of the turn. sha256: over the SCHEMA
    columns of every row, so that any change of a reward or a span changes it. It ends with the connection that it was
    computed on.
    """

    method: str
    connection: duckdb.DuckDBPyConnection
    kept: dict[Stage, tuple[str, ...]]
    dropped: tuple[Dropped, ...]
    sha256: str

    @cached_property
    def rows(self) -> pl.DataFrame:
        """All rows, SCHEMA and `trainable`, by stage, group, trajectory, turn, span; `batches` holds less at once."""
        return _polars(self.connection.sql(query("credit_ordered")).to_arrow_table())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same without `trainable`, in record batches."""
        yield from self.connection.sql(query("credit_ordered")).select(*SCHEMA.names).to_arrow_reader(BATCH)

    def groups(self, stage: Stage) -> list[str]:
        """Groups of a stage that can train, sorted."""
        return list(self.kept.get(stage, ()))

    def training_rows(self, stage: Stage, group_ids: Sequence[str]) -> pl.DataFrame:
        """Rows of the given groups that a datum is built from; raises StoreError for a group that was dropped."""
        unknown = sorted(set(group_ids) - set(self.kept.get(stage, ())))
        if unknown:
            reason = {d.group_id: d.reason for d in self.dropped if d.stage == stage}.get(unknown[0], "no credit row")
            msg = f"group {unknown[0]} cannot train stage {stage}: {reason}"
            raise StoreError(msg)
        wanted = pa.table({"group_id": pa.array(sorted(set(group_ids)), pa.string())})
        with Registered(self.connection, "wanted_groups", wanted):
            rows = self.connection.sql(query("training_rows"), params={"stage": stage}).to_arrow_table()
        return _polars(rows)


def compute_credit(
    connection: duckdb.DuckDBPyConnection,
    method: Method,
    *,
    where: Where | None = None,
    filters: Filters | None = None,
    ran: Callable[[str], None] = lambda name: None,
) -> Credit:
    """Credit of everything the connection shows, for all stages of the method.

    `where` and `filters` say what of it is trained.
    Baselines are those of all rows, whatever is left out. `ran` hears of each step that has ended. Raises
    StoreError for rows that break the contract and ConfigError for SQL that does not run.
    """
    own = interruptible(connection.cursor())  # shares the views; its temporary tables are its own
    _prepare(own, method)
    ran("verdicts")
    for rule in method.rules:
        _run_rule(connection, own, rule)
        ran(rule.path.name)
        take_part(own, rule)
    if method.control == "shuffled":
        shuffle = Rule(method.stages, CREDITS / "shuffled.sql", (("seed", str(method.control_seed)),))
        _run_rule(connection, own, shuffle)
        own.execute(query("credit_rows"))
        take_part(own, shuffle)
    own.execute("drop table if exists credit_part")
    own.execute(query("credited"))
    ran("turns of the rows")
    check_rows(own)
    ran("checks")
    sha256 = _hash(own)
    ran("hash")
    own.execute("drop table credit_rows")
    if where is not None:
        apply_where(own, where)
    if filters is not None:
        apply_filters(own, filters)
    names = [str(chosen) for chosen in (where, filters) if chosen is not None]
    kept, dropped = _sort_groups(own, method.stages, " and ".join(names))
    return Credit(method.name, own, kept, dropped, sha256)


def _prepare(own: duckdb.DuckDBPyConnection, method: Method) -> None:
    """What all rules share: an empty table for their rows, and verdicts worked out once, real or by coin."""
    own.execute(query("credit_rows"))
    if method.control == "coin_flip":
        for name in ("coin_verdicts", "coin_labels", "coin_scores"):
            own.execute(query(name), {"seed": str(method.control_seed)})
    else:
        own.execute(query("plain_verdicts"))


def _run_rule(connection: duckdb.DuckDBPyConnection, own: duckdb.DuckDBPyConnection, rule: Rule) -> None:
    statement = rule.statement()
    params = rule.bind(set(statement.named_parameters))
    try:
        own.execute(f"create or replace temp table credit_part as\n{statement.query}", params or None)
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        if not isinstance(error, (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)):
            require_sound(connection)
        msg = f"credit {rule.path} does not run: {' '.join(str(error).split())}"
        raise ConfigError(msg) from None


def _sort_groups(
    own: duckdb.DuckDBPyConnection, stages: Sequence[Stage], chosen_by: str
) -> tuple[dict[Stage, tuple[str, ...]], tuple[Dropped, ...]]:
    relation = own.sql(query("credit_groups"), params={"zero": ZERO})
    kept: dict[Stage, list[str]] = {stage: [] for stage in stages}
    dropped = []
    for row in _polars(relation.to_arrow_table()).iter_rows(named=True):
        if row["stage"] not in stages:
            continue
        reason = _reason(row, chosen_by)
        if reason is None:
            kept[row["stage"]].append(row["group_id"])
        else:
            dropped.append(Dropped(row["stage"], row["group_id"], reason))
    order = sorted(dropped, key=lambda d: (d.stage, d.group_id))
    return {stage: tuple(groups) for stage, groups in kept.items()}, tuple(order)


def _reason(row: dict[str, object], chosen_by: str) -> str | None:
    if not row["n_rows"]:
        return NOTHING[str(row["stage"])]
    if float(str(row["largest"])) <= ZERO:
        return "homogeneous: every advantage is 0"
    if not row["trainable"]:
        return "not trainable: its credited turns have no token ids with log-probabilities"
    if not row["moves"]:
        return "homogeneous: every advantage on trainable turns is 0"
    if not row["selected"]:
        return f"left out by {chosen_by}"
    if not row["selected_moves"]:
        return "homogeneous: every advantage on what is trained is 0"
    return None


def hash_rows(rows: pl.DataFrame) -> str:
    """Hash of some credit rows as a set, the same as that of a whole Credit with these rows."""
    connection = scratch()
    with Registered(connection, "credit_rows", rows.select(SCHEMA.names).to_arrow()):
        return _hash(connection)


def _hash(connection: duckdb.DuckDBPyConnection) -> str:
    (row,) = connection.sql(query("credit_hash")).fetchall()
    return hashlib.sha256("|".join(map(str, row)).encode()).hexdigest()


def _polars(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
