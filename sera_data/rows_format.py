"""The formats in which rows of a query leave: table, CSV, JSON, Parquet.

Invariant: CSV and JSON are valid whatever the rows hold: in CSV nested cells become JSON text, in JSON NaN is null.

Run: ``write_rows(frame, Format.csv, Path("rows.csv"))``.
"""

from __future__ import annotations

import io
import json
import math
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sera_data.output import write_output
from sera_data.printing import json_value, print_table

if TYPE_CHECKING:
    from pathlib import Path


class Format(StrEnum):
    """Output formats of rows."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def write_rows(frame: Any, fmt: Format, output: Path | None) -> None:
    """Write a polars frame to a file or stdout; raises OSError where the disk refuses it."""
    if fmt is Format.parquet and output is not None:
        content = io.BytesIO()  # a disk that is full is then the disk's fault, not one of Parquet
        frame.write_parquet(content, compression="zstd")
        write_output(output, content.getvalue())
        return
    if fmt is Format.table:
        rows = [["" if value is None else value for value in row] for row in frame.rows()]
        print_table(frame.columns, rows, file=output)
        return
    if fmt is Format.csv:
        text = _flat(frame).write_csv()
    else:
        rows = [_finite(row) for row in frame.to_dicts()]
        text = json.dumps(rows, ensure_ascii=False, default=json_value, indent=1, allow_nan=False) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        write_output(output, text)


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list) else value


def _flat(frame: Any) -> Any:
    """Nested columns as JSON text, because CSV has no lists."""
    import polars as pl

    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    texts = [
        pl.Series(
            name, [None if v is None else json.dumps(_plain(v), default=json_value) for v in frame[name]], pl.String
        )
        for name in nested
    ]
    return frame.with_columns(texts)


def _plain(value: Any) -> Any:
    return value.to_list() if hasattr(value, "to_list") else value
