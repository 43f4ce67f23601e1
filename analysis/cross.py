"""Writers x scorers: the twelfth section, made from lines that another package collected by asking policies.

Invariant: metrics come out of `cross_metrics.sql`; all combinations are measured on the same branches, a missing score
counts as worst, and differences are taken replicate by replicate on the same tasks.
Run: ``sera audit STORE --cross cross.yaml``
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ConfigDict
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analysis import measure
from analysis.query import rows
from analysis.results import Result
from analysis.wording import number, share
from sera_data.duck import connect_empty


class Combination(Result):
    """One writer's rubrics applied by one scorer. against_first: pair accuracy minus that of the first combination."""

    writer: str
    scorer: str
    pairs: int
    nodes: int
    tasks: int
    pair_accuracy: float | None
    low: float | None
    high: float | None
    mean_hinge: float | None
    bias: float | None
    missing: float | None
    against_first: float | None
    against_low: float | None
    against_high: float | None


class Crossed(Result):
    """The whole table. measured_for: policies, and a hash over them, configuration and probes; html: its page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: str
    margin: float
    reps: int
    combinations: list[Combination]
    measured_for: dict[str, Any]
    html: str | None = None


def crossed(
    lines: Sequence[dict[str, Any]], about: dict[str, Any], *, store: str, reps: int, seed: int, margin: float
) -> Crossed:
    """Measure lines of {writer, scorer, task_id, delegation_id, node_id, y, score or None}, in the table's order."""
    import polars as pl

    schema = {"writer": pl.String, "scorer": pl.String, "task_id": pl.String, "delegation_id": pl.String,
              "node_id": pl.String, "y": pl.Float64, "score": pl.Float64}  # fmt: skip
    table = pl.DataFrame(list(lines), schema=schema).with_row_index("place")
    con = connect_empty()
    try:
        con.register("cross_lines", table)
        rows(con, "cross_tasks")
        rows(con, "boot_blocks", seed=seed, most_blocks=measure.MOST_BLOCKS)
        rows(con, "weights", reps=reps, coarse_blocks=measure.COARSE_BLOCKS)
        con.execute("set threads = 1")
        found = [Combination(**row) for row in rows(con, "cross_metrics", margin=margin)]
    finally:
        con.close()
    return Crossed(store=store, margin=margin, reps=reps, combinations=found, measured_for=about)


def print_crossed(result: Crossed, console: Console) -> None:
    """The table, and what writers and scorers are worth apart."""
    console.print(f"[bold]Writers x scorers[/bold] on mixed delegations of {escape(result.store)}")
    table = Table(box=None, pad_edge=False)
    for title in ("writer", "scorer", "accuracy", "95 % interval", "change", "hinge", "bias", "missing"):
        table.add_column(title, justify="left" if title in ("writer", "scorer") else "right", no_wrap=True)
    for row in result.combinations:
        span = f"{share(row.low).removesuffix(' %')} to {share(row.high)}" if row.low is not None else "–"
        sure = row.against_low is not None and row.against_high is not None
        sure = sure and not (row.against_low or 0) <= 0 <= (row.against_high or 0)
        change = number(row.against_first) + ("*" if sure else " ")
        table.add_row(
            escape(row.writer), escape(row.scorer), share(row.pair_accuracy), span, change, number(row.mean_hinge),
            number(row.bias), share(row.missing),
        )  # fmt: skip
    console.print(table)
    if result.combinations:
        first = result.combinations[0]
        console.print(
            f"{first.pairs:,} pairs of {first.tasks:,} tasks each. Change: against the first line, * where its"
            " interval excludes 0. A missing score counts as worst. 'other' is another"
            " delegation's rubric, 'none' no rubric: a rubric that is no better than these carries nothing."
        )
