"""The final word of a loop: what each epoch showed, what was trained, what lies in the store, where the report is.

Invariant: every figure is read back from the store; nothing is remembered from the run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import sera_data
from learn.registered import query
from schemas import TABLES

MARGIN = 0.2


def loop_report(store: Path) -> dict[str, Any]:
    """Figures per epoch, updates per stage, rows and bytes per table, as plain JSON values."""
    opened = sera_data.open(store)
    with opened.connect() as connection:
        epochs = connection.sql(query("loop_epochs"), params={"margin": MARGIN}).pl().to_dicts()
        updates = connection.sql(query("loop_updates")).pl().to_dicts()
    listing = opened.listing()
    tables = {name: {"rows": listing.rows(name), "bytes": listing.bytes(name)} for name in TABLES}
    return {"store": str(store), "epochs": epochs, "updates": updates, "tables": tables}


def print_report(report: dict[str, Any]) -> None:
    """The same as three tables."""
    console = Console()
    figures = ("success", "mixed_share", "pair_accuracy", "hinge")
    table = Table(
        "epoch", "trees", "success", "forked", "mixed share", "pairs", "pair accuracy", "hinge", title="epochs"
    )
    for row in report["epochs"]:
        success, mixed, accuracy, hinge = (_number(row[name]) for name in figures)
        counts = [str(row["epoch"]), str(row["trees"]), success, str(row["forked"] or 0), mixed, str(row["pairs"] or 0)]
        table.add_row(*counts, accuracy, hinge)
    console.print(table)
    table = Table("epoch", "stage", "updates", "skips", "mean loss", "entropy", "version after", title="updates")
    for row in report["updates"]:
        cells = [str(row[name]) for name in ("epoch", "stage", "updates", "skips")]
        table.add_row(*cells, _number(row["loss"]), _number(row["entropy"]), str(row["version"]))
    console.print(table)
    table = Table("table", "rows", "bytes", title=f"store {report['store']}")
    for name, size in report["tables"].items():
        table.add_row(name, f"{size['rows']:,}", f"{size['bytes']:,}")
    console.print(table)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
