"""Credit: runs a method's SQL on a store connection, checks what it returns and decides which groups can train.

Invariant: credit is a pure function of (rows of the connection, method). Every returned row keeps the contract: the
ten columns of SCHEMA, a known turn, a span inside the turn's completion, finite numbers, one policy version per
group, no overlapping spans. A group whose advantages are all 0, or whose credited turns have no tokens, is dropped
with its reason and never silently.

Run: ``sera credit STORE --method sera``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from learn.method import CREDITS, Method, Rule
from learn.registered import Registered, query
from schemas.words import Stage
from sera_data.damage import require_sound
from sera_data.errors import ConfigError, StoreError

SCHEMA = pa.schema(
    [
        ("turn_id", pa.string()),
        ("trajectory_id", pa.string()),
        ("stage", pa.string()),
        ("token_start", pa.int32()),
        ("token_end", pa.int32()),
        ("reward", pa.float64()),
        ("baseline", pa.float64()),
        ("advantage", pa.float64()),
        ("depth", pa.int32()),
        ("group_id", pa.string()),
    ]
)
"""What a credit file returns, one row per credited span [token_start, token_end) of a turn's completion."""

ORDER = ("stage", "group_id", "trajectory_id", "turn_id", "token_start")
ZERO = 1e-9
LARGEST = 1e6
"""Largest reward, baseline or advantage either way: the loss computes in float32, where its products stay finite."""

NOTHING = {
    "execution": "no root with a verdict, or nothing that a reward could be paid to",
    "delegation": "no delegation event, or fewer than two roots with a verdict",
    "rubric": "no complete delegation with valid scores for both a success and a failure",
}


@dataclass(frozen=True, slots=True)
class Dropped:
    """A group that gives no datum to its stage."""

    stage: Stage
    group_id: str
    reason: str


@dataclass(frozen=True)
class Credit:
    """All validated rows in a fixed order, the groups dropped, and the hash of the rows.

    rows: SCHEMA plus `trainable` (the turn has ids and logprobs of an untruncated distribution), sorted by ORDER.
    sha256: over the SCHEMA columns of every row, so that any change of a reward or a span changes it.
    """

    method: str
    rows: pl.DataFrame
    dropped: tuple[Dropped, ...]
    sha256: str

    def groups(self, stage: Stage) -> list[str]:
        """Groups of a stage that can train, sorted."""
        return self._kept(stage)["group_id"].unique().sort().to_list()

    def training_rows(self, stage: Stage, group_ids: list[str] | tuple[str, ...]) -> pl.DataFrame:
        """Rows of the given groups that a datum is built from; raises StoreError for a group that was dropped."""
        kept = self._kept(stage)
        unknown = sorted(set(group_ids) - set(kept["group_id"]))
        if unknown:
            reason = {d.group_id: d.reason for d in self.dropped if d.stage == stage}.get(unknown[0], "no credit row")
            msg = f"group {unknown[0]} cannot train stage {stage}: {reason}"
            raise StoreError(msg)
        return kept.filter(pl.col("group_id").is_in(list(group_ids)))

    def _kept(self, stage: Stage) -> pl.DataFrame:
        out = [d.group_id for d in self.dropped if d.stage == stage]
        return self.rows.filter(pl.col("stage") == stage, "trainable", ~pl.col("group_id").is_in(out))


def compute_credit(connection: duckdb.DuckDBPyConnection, method: Method) -> Credit:
    """Credit of everything the connection shows, for all stages of the method.

    Raises StoreError for rows that break the contract and ConfigError for SQL that does not run.
    """
    parts = [_run_rule(connection, rule) for rule in method.rules]
    rows = pa.concat_tables(parts) if parts else SCHEMA.empty_table()
    if method.control == "shuffled":
        shuffle = Rule(method.stages, CREDITS / "shuffled.sql", (("seed", str(method.control_seed)),))
        with Registered(connection, "credit_rows", rows):
            rows = _run_rule(connection, shuffle)
    with Registered(connection, "credit_rows", rows.select(["turn_id"])):
        turns = _polars(connection.sql(query("turn_facts")).to_arrow_table())
    groups = _polars(connection.sql(query("group_facts")).to_arrow_table())
    frame = _polars(rows).join(turns, on="turn_id", how="left", maintain_order="left").sort(ORDER)
    _check_spans(frame)
    _check_versions(frame, groups)
    rows = frame.select([*SCHEMA.names, "trainable"])
    dropped = _dropped(rows, groups.filter(pl.col("stage").is_in(method.stages)))
    return Credit(method.name, rows, dropped, hash_rows(rows))


def _run_rule(connection: duckdb.DuckDBPyConnection, rule: Rule) -> pa.Table:
    statement = rule.statement()
    params = rule.bind(set(statement.named_parameters))
    try:
        table = connection.sql(statement.query, params=params or None).to_arrow_table()
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        if not isinstance(error, (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)):
            require_sound(connection)
        msg = f"credit {rule.path} does not run: {' '.join(str(error).split())}"
        raise ConfigError(msg) from None
    return _conform(table, rule)


def _conform(table: pa.Table, rule: Rule) -> pa.Table:
    """The rows in the columns and types of SCHEMA; the error names the column."""
    where = f"credit {rule.path}"
    missing = [name for name in SCHEMA.names if name not in table.column_names]
    extra = [name for name in table.column_names if name not in SCHEMA.names]
    twice = [name for name in SCHEMA.names if table.column_names.count(name) > 1]
    if missing or extra or twice:
        fault = f"returns column {twice[0]!r} twice" if twice else ""
        fault = f"returns an unknown column {extra[0]!r}" if extra else fault
        fault = f"does not return column {missing[0]!r}" if missing else fault
        msg = f"{where} {fault}; a credit file returns exactly {', '.join(SCHEMA.names)}"
        raise StoreError(msg)
    columns = []
    for field in SCHEMA:
        column = table[field.name]
        try:
            column = _cast(column, field.type)
        except pa.ArrowException as error:
            msg = f"{where}: column {field.name!r} must be {field.type}, got {column.type}: {error}"
            raise StoreError(msg) from None
        if column.null_count:
            msg = f"{where}: column {field.name!r} holds {column.null_count} nulls of {len(column)}; none is allowed"
            raise StoreError(msg)
        if field.type == pa.float64() and not (np.abs(column.to_numpy()) <= LARGEST).all():
            msg = f"{where}: column {field.name!r} holds NaN, infinity or a number beyond {LARGEST:g} either way"
            raise StoreError(msg, hint="every number must be finite; rewards are most often between 0 and 1")
        columns.append(column)
    conformed = pa.table(columns, schema=SCHEMA)
    wrong = sorted(set(conformed["stage"].unique().to_pylist()) - set(rule.stages))
    if wrong:
        msg = f"{where}: column 'stage' holds {wrong[0]!r}; allowed here: {', '.join(rule.stages)}"
        raise StoreError(msg)
    return conformed


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
    if (kind == pa.string()) == number:
        msg = "a number where text belongs" if number else "no number where a number belongs"
        raise pa.ArrowTypeError(msg)
    return column.cast(kind)


def _check_spans(frame: pl.DataFrame) -> None:
    unknown = frame.filter(pl.col("policy_version").is_null())
    if len(unknown):
        msg = f"credit names turn {unknown['turn_id'][0]}, which is not in the store"
        raise StoreError(msg)
    length = pl.col("n_tokens").fill_null(0)
    outside = frame.filter((pl.col("token_start") < 0) | (pl.col("token_end") > length) | _empty(length))
    if len(outside):
        turn, start, end, n = outside.select("turn_id", "token_start", "token_end", length.alias("n")).row(0)
        msg = f"span [{start}, {end}) is not inside turn {turn}, which has {n} completion tokens"
        raise StoreError(msg, hint="spans are half open, 0 <= token_start < token_end <= completion length")
    spans = frame.sort("stage", "turn_id", "token_start", "token_end")
    same = (pl.col("stage") == pl.col("stage").shift(1)) & (pl.col("turn_id") == pl.col("turn_id").shift(1))
    overlap = (pl.col("token_start") < pl.col("token_end").shift(1)) | (length == 0)
    twice = spans.filter(same & overlap)
    if len(twice):
        msg = f"two credit rows of stage {twice['stage'][0]} cover the same tokens of turn {twice['turn_id'][0]}"
        raise StoreError(msg, hint="return each span once per stage; a join in the SQL may be doubling rows")
    if frame["depth"].min() is not None and frame.filter(pl.col("depth") < 0).height:
        msg = f"depth is 0 or more, got a negative one for turn {frame.filter(pl.col('depth') < 0)['turn_id'][0]}"
        raise StoreError(msg)


def _empty(length: pl.Expr) -> pl.Expr:
    """An empty span is allowed only for a turn without tokens, to show its credit."""
    return (pl.col("token_start") >= pl.col("token_end")) & (length > 0)


def _check_versions(frame: pl.DataFrame, groups: pl.DataFrame) -> None:
    """One policy version over the credited turns of a group and, before rubrics, over its factual nodes."""
    credited = frame.group_by("stage", "group_id").agg(
        pl.col("policy_version").min().alias("low"), pl.col("policy_version").max().alias("high")
    )
    members = groups.filter(pl.col("stage") != "rubric").select(
        "stage", "group_id", pl.col("version_min").alias("low"), pl.col("version_max").alias("high")
    )
    kind = pl.Schema({"low": pl.Int64, "high": pl.Int64})
    both = pl.concat([credited.cast(kind), members.join(credited, on=["stage", "group_id"], how="semi").cast(kind)])
    spread = both.group_by("stage", "group_id").agg(pl.col("low").min(), pl.col("high").max())
    mixed = spread.filter(pl.col("low") != pl.col("high")).sort("stage", "group_id")
    if len(mixed):
        stage, group, low, high = mixed.row(0)
        msg = f"group {group} of stage {stage} mixes policy versions {low} and {high} in one baseline"
        raise StoreError(msg, hint="a baseline compares samples of one version; collect the group at one version")


def _dropped(rows: pl.DataFrame, groups: pl.DataFrame) -> tuple[Dropped, ...]:
    facts = rows.group_by("stage", "group_id").agg(
        pl.col("advantage").abs().max().alias("largest"),
        pl.col("trainable").any(),
        ((pl.col("advantage").abs() > ZERO) & pl.col("trainable")).any().alias("moves"),
    )
    out = [
        Dropped(row["stage"], row["group_id"], _reason(row))
        for row in facts.iter_rows(named=True)
        if not (row["trainable"] and row["moves"])
    ]
    for row in groups.join(facts, on=["stage", "group_id"], how="anti").iter_rows(named=True):
        out.append(Dropped(row["stage"], row["group_id"], NOTHING[row["stage"]]))
    return tuple(sorted(out, key=lambda d: (d.stage, d.group_id)))


def _reason(row: dict[str, object]) -> str:
    if float(str(row["largest"])) <= ZERO:
        return "homogeneous: every advantage is 0"
    if not row["trainable"]:
        return "not trainable: its credited turns have no token ids with log-probabilities"
    return "homogeneous: every advantage on trainable turns is 0"


def hash_rows(rows: pl.DataFrame) -> str:
    """Hash of the sorted rows, column by column; independent of chunks and of library versions."""
    digest = hashlib.sha256()
    for field in SCHEMA:
        digest.update(f"{field.name}:{field.type}:{len(rows)}\n".encode())
        if field.type == pa.string():
            digest.update("\n".join(rows[field.name].to_list()).encode())
        elif field.type == pa.float64():
            digest.update((rows[field.name].to_numpy() + 0.0).astype("<f8").tobytes())
        else:
            digest.update(rows[field.name].to_numpy().astype("<i4").tobytes())
    return digest.hexdigest()


def _polars(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
