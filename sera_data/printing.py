"""Tables and JSON as the commands on a store print them.

Invariant: cells are text, never markup; rich is imported only when a table is printed.

Run: ``print_table(("name", "rows"), [["nodes", 3]])``.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str | None = None, file: Path | None = None
) -> None:
    """A table for people, on stdout or into a file; 200 columns wide where no terminal says otherwise."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from sera_data.output import output_file

    shown = Table(*columns, title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for row in rows:
        shown.add_row(*(Text(f"{v:.4f}" if isinstance(v, float) else "" if v is None else str(v)) for v in row))
    if file is not None:
        with output_file(file) as aside, aside.open("w", encoding="utf-8") as handle:
            Console(file=handle, width=200).print(shown)
        return
    console = Console()
    Console(width=None if console.is_terminal else 200).print(shown)


def print_json(value: Any) -> None:
    """One JSON document on stdout; what JSON does not know becomes a number where it is one, else text."""
    print(json.dumps(value, ensure_ascii=False, indent=1, default=json_value))


def json_value(value: Any) -> int | float | str:
    """For `json.dumps(default=...)`: DuckDB's sums of integers are Decimals, and numbers must stay numbers."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def print_facts(facts: Mapping[str, Any], *, as_json: bool) -> None:
    """A line per fact, names in a column of their own; or the same as one line of JSON."""
    if as_json:
        print(json.dumps(facts))
        return
    width = max(20, 2 + max(map(len, facts), default=0))
    for name, value in facts.items():
        if isinstance(value, dict):
            shown = ", ".join(f"{key}: {count:,}" for key, count in value.items()) or "none"
        elif isinstance(value, list):
            shown = ", ".join(value) or "none"
        else:
            shown = f"{value:,}" if isinstance(value, int) else str(value)
        print(f"{name.replace('_', ' '):<{width}}{shown}")
