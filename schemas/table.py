"""A table of the store: its PyArrow schema and the documentation of every column.

Invariant: the schema is always given, never inferred. Every column says what it means, whether it may
be null, who writes it and, for lists, what its elements are aligned with. A column marked `volatile`
(times, hosts, latencies) is left out of the content hash, so that two runs of one deterministic config
have equal hashes.

Run: ``sera data describe`` prints all of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa

STRING = pa.string()
INT8 = pa.int8()
INT16 = pa.int16()
INT32 = pa.int32()
INT64 = pa.int64()
FLOAT32 = pa.float32()
FLOAT64 = pa.float64()
BOOL = pa.bool_()
TIME = pa.timestamp("us", tz="UTC")


def list_of(element: pa.DataType) -> pa.DataType:
    """List type whose elements are never null (a null list is still allowed by its column)."""
    return pa.list_(pa.field("element", element, nullable=False))


def struct_of(**fields: pa.DataType) -> pa.DataType:
    """Struct type with nullable members, in the order given."""
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    name: column name. type: Arrow type on disk. doc: meaning, unit, alignment, and when it is null.
    nullable: False makes the writer refuse nulls. volatile: True leaves it out of the content hash.
    values: the closed set of strings an enum column may hold, or empty.
    """

    name: str
    type: pa.DataType
    doc: str
    nullable: bool = False
    volatile: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """One table: `key` is unique over a store (over an epoch for `tasks`); `sort` is the sealed order.

    sealed: whether a sealed directory always has its file, or only `with_rows`, as an overlay that few epochs have.
    """

    name: str
    doc: str
    key: tuple[str, ...]
    sort: tuple[str, ...]
    columns: tuple[Column, ...]
    row_group: int = 65_536
    sealed: Literal["always", "with_rows"] = "always"

    @cached_property
    def schema(self) -> pa.Schema:
        """The PyArrow schema, with each column's documentation in its field metadata."""
        return pa.schema(
            [pa.field(c.name, c.type, nullable=c.nullable, metadata={b"doc": c.doc.encode()}) for c in self.columns]
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of all columns."""
        return frozenset(c.name for c in self.columns)

    @cached_property
    def stable_columns(self) -> tuple[str, ...]:
        """Names of the columns that enter the content hash, in schema order."""
        return tuple(c.name for c in self.columns if not c.volatile)

    def column(self, name: str) -> Column:
        """The column of that name; raises KeyError with the allowed names."""
        for column in self.columns:
            if column.name == name:
                return column
        msg = f"table {self.name!r} has no column {name!r}; it has {[c.name for c in self.columns]}"
        raise KeyError(msg)


def provenance() -> tuple[Column, ...]:
    """The three columns that every table carries physically (never as `key=value` folders)."""
    return (
        Column("run_id", STRING, "Writer of the row: config name + 8 hex digits of the config hash."),
        Column("epoch", INT32, "Epoch of the node that the row speaks of (of the phase, for runs, updates, evals)."),
        Column("shard_id", STRING, "Shard (work unit) that committed the row, for example 'e000003.u0004'."),
    )
