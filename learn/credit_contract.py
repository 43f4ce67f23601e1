"""The contract of a credit file: its ten columns, their types, and what every row must keep.

Invariant: what passes has exactly the columns of SCHEMA without nulls or wild numbers, known turns, spans inside their
turns, no token paid twice in a stage, the right owner and group, and one policy version per baseline. Every fault names
the file and the column, or the turn.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from learn.registered import query
from learn.rule import Rule
from sera_data.errors import StoreError

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

LARGEST = 1e6
"""Largest reward, baseline or advantage either way: the loss computes in float32, where its products stay finite."""

HINTS = {
    2: "spans are half open, 0 <= token_start < token_end <= completion length",
    3: "return each span once per stage; a join in the SQL may be doubling rows",
    5: "a join pairs the turn with another node and so with its label; trajectory_id of an act turn is its node_id",
    6: "a join pairs the turn with another rubric; trajectory_id of a rubric turn is its rubric_id",
    7: "group_id is 'epoch/task_id' of the turn; a join pairs it with another task or epoch",
}


def take_part(connection: duckdb.DuckDBPyConnection, rule: Rule) -> None:
    """Check the rows of a rule in `credit_part` and add them to `credit_rows`; StoreError names file and column."""
    where = f"credit {rule.path}"
    found = connection.sql("from credit_part limit 0").to_arrow_table().schema
    _check_columns(found, where)
    for field in SCHEMA:
        _check_type(field, found.field(field.name).type, where)
    relation = connection.sql(query("credit_part"), params={"largest": LARGEST})
    (row,) = relation.fetchall()
    facts = dict(zip(relation.columns, row, strict=True))
    for field in SCHEMA:
        _check_values(field, facts, where)
    wrong = [stage for stage in facts["stages"] or () if stage not in rule.stages]
    if wrong:
        msg = f"{where}: column 'stage' holds {wrong[0]!r}; allowed here: {', '.join(rule.stages)}"
        raise StoreError(msg)
    connection.execute(query("credit_take"))


def check_rows(connection: duckdb.DuckDBPyConnection) -> None:
    """Check all rows together, in `credited`, against the store."""
    for place, _, fault in connection.sql(query("credit_faults")).fetchall():
        raise StoreError(fault, hint=HINTS.get(place))
    for stage, group, low, high in connection.sql(query("credit_versions")).fetchall():
        msg = f"group {group} of stage {stage} mixes policy versions {low} and {high} in one baseline"
        raise StoreError(msg, hint="a baseline compares samples of one version; collect the group at one version")


def _check_columns(found: pa.Schema, where: str) -> None:
    missing = [name for name in SCHEMA.names if name not in found.names]
    extra = [name for name in found.names if name not in SCHEMA.names]
    if missing or extra:
        fault = f"does not return column {missing[0]!r}" if missing else f"returns an unknown column {extra[0]!r}"
        msg = f"{where} {fault}; a credit file returns exactly {', '.join(SCHEMA.names)}"
        raise StoreError(msg)


def _check_type(field: pa.Field, kind: pa.DataType, where: str) -> None:
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    wanted = field.type
    if (wanted == pa.string() and not text) or (wanted != pa.string() and not number):
        fault = "text is wanted" if wanted == pa.string() else "a number is wanted"
        msg = f"{where}: column {field.name!r} must be {wanted}, got {kind}: {fault}"
        raise StoreError(msg)


def _check_values(field: pa.Field, facts: dict[str, Any], where: str) -> None:
    name, nulls, count = field.name, facts[f"{field.name}_nulls"], facts.get(f"{field.name}_wrong", 0)
    if nulls:
        msg = f"{where}: column {name!r} holds {nulls} nulls of {facts['n_rows']}; none is allowed"
        raise StoreError(msg)
    if count and field.type == pa.int32():
        msg = f"{where}: column {name!r} must be int32, got {count} values that are no whole 32-bit numbers"
        raise StoreError(msg)
    if count:
        msg = f"{where}: column {name!r} holds NaN, infinity or a number beyond {LARGEST:g} either way"
        raise StoreError(msg, hint="every number must be finite; rewards are most often between 0 and 1")
