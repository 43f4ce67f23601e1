"""Dict rows into Arrow tables of the explicit schemas, or a RowError that names the row and the column.

Invariant: nothing is coerced that would lose something: no float into an integer column, no unknown struct member, no
NaN outside `updates`, no null where the schema has none. Arrow alone would do the first two silently.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sera_data.errors import RowError

if TYPE_CHECKING:
    from schemas.table import Column, Table

Row = Mapping[str, Any]


def require_columns(table: Table, row: Row) -> None:
    """Refuse a row with a column that the table does not have."""
    unknown = sorted(row.keys() - table.names)
    if unknown:
        allowed = ", ".join(c.name for c in table.columns)
        msg = f"{row_name(table, row)}: unknown column {unknown[0]!r}; allowed: {allowed}"
        raise RowError(msg)


def to_arrow(table: Table, rows: Sequence[Row]) -> pa.Table:
    """Rows as an Arrow table; absent nullable columns are null."""
    arrays = [_column(table, column, rows) for column in table.columns]
    schema = pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in table.columns])
    return pa.Table.from_arrays(arrays, schema=schema)


def row_name(table: Table, row: Row) -> str:
    """How errors call a row: `turns row turn_id='r..#0003'`."""
    return f"{table.name} row " + ", ".join(f"{key}={row.get(key)!r}" for key in table.key)


def _column(table: Table, column: Column, rows: Sequence[Row]) -> pa.Array:
    values = [row.get(column.name) for row in rows]
    if column.values and not set(values) <= {None, *column.values}:
        row = next(r for r, v in zip(rows, values, strict=True) if v is not None and v not in column.values)
        _refuse(table, row, column, f"got {row[column.name]!r}; allowed: {', '.join(column.values)}")
    try:
        array = pa.array(values, type=column.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        _name_the_row(table, column, rows)
        raise
    if array.null_count and not column.nullable:
        row = next(r for r, v in zip(rows, values, strict=True) if v is None)
        state = "is null" if column.name in row else "is missing"
        _refuse(table, row, column, f"{state}; the column has no nulls ({column.doc})")
    if not _plainly_sound(column.type, values):
        for row, value in zip(rows, values, strict=True):
            fault = _fault(column.type, value, finite=table.name != "updates")
            if fault:
                _refuse(table, row, column, fault)
    return array


def _plainly_sound(kind: pa.DataType, values: Sequence[Any]) -> bool:
    """True when one look at the Python types shows that Arrow lost nothing; most columns end here."""
    if pa.types.is_list(kind) and not pa.types.is_struct(kind.value_type):
        kinds = set(map(type, chain.from_iterable(value for value in values if value is not None)))
        return kinds <= {int} if pa.types.is_integer(kind.value_type) else type(None) not in kinds
    if pa.types.is_nested(kind):
        return not any(values)  # nothing but nulls and empty lists
    if pa.types.is_integer(kind):
        return set(map(type, values)) <= {int, type(None)}
    if pa.types.is_floating(kind):
        return all(math.isfinite(value) for value in values if value is not None)
    return True


def _name_the_row(table: Table, column: Column, rows: Sequence[Row]) -> None:
    for row in rows:
        try:
            pa.array([row.get(column.name)], type=column.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            _refuse(table, row, column, f"got {_shown(row.get(column.name))}; allowed: {column.type} ({error})")


def _refuse(table: Table, row: Row, column: Column, fault: str) -> None:
    msg = f"{row_name(table, row)}: column {column.name!r} {fault}"
    raise RowError(msg)


def _fault(kind: pa.DataType, value: Any, *, finite: bool) -> str | None:
    """What Arrow accepts and we do not: lost fractions, NaN, unknown struct members, null list elements."""
    if value is None:
        return None
    if pa.types.is_integer(kind):
        return None if isinstance(value, numbers.Integral) else f"got {value!r}; allowed: {kind}"
    if pa.types.is_floating(kind):
        return f"got {value!r}; allowed: finite numbers" if finite and not math.isfinite(value) else None
    if pa.types.is_struct(kind):
        return _struct_fault(kind, value, finite=finite)
    if pa.types.is_list(kind):
        return _list_fault(kind, value, finite=finite)
    return None


def _struct_fault(kind: pa.StructType, value: Any, *, finite: bool) -> str | None:
    names = [field.name for field in kind]
    unknown = sorted(set(value) - set(names))
    if unknown:
        return f"has unknown member {unknown[0]!r}; allowed: {', '.join(names)}"
    for field in kind:
        fault = _fault(field.type, value.get(field.name), finite=finite)
        if fault:
            return f"member {field.name!r} {fault}"
    return None


def _list_fault(kind: pa.ListType, value: Any, *, finite: bool) -> str | None:
    kinds = set(map(type, value))
    if type(None) in kinds:
        return "has a null element; elements are never null"
    if pa.types.is_floating(kind.value_type):  # logprobs: the token rule names the position of a bad one
        return None
    if pa.types.is_integer(kind.value_type):
        bad = sorted(t.__name__ for t in kinds if not issubclass(t, numbers.Integral))
        return f"has {bad[0]} elements; allowed: {kind.value_type}" if bad else None
    for index, element in enumerate(value):
        fault = _fault(kind.value_type, element, finite=finite)
        if fault:
            return f"element {index} {fault}"
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
