"""`sera data costs`: judge and verifier calls, tokens by role and wall time, per method, tree and success.

Invariant: every number comes out of `queries/cost_*.sql`; a figure that was not recorded is empty, never 0 by guess.

Run: ``sera data costs STORE``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from sera_data.errors import UsageError
from sera_data.printing import print_json, print_table
from sera_data.store_argument import Json, StorePath, open_path

QUERIES = ("cost_calls", "cost_time", "cost_parts")
TITLES = {
    "cost_calls": "Calls and tokens (the SERA paper's Table 2)",
    "cost_time": "Hours by phase (the SERA paper's Table 7)",
    "cost_parts": "Seconds inside the phases, summed over calls that ran side by side",
}
COLUMNS = {
    "cost_calls": ("measure", "total", "per_tree", "per_success"),
    "cost_time": ("phase", "elapsed_s", "n_hosts", "accelerators", "accelerator_hours", "s_per_tree", "s_per_success"),
    "cost_parts": ("phase", "part", "n", "seconds"),
}


class Level(StrEnum):
    """How finely costs are split."""

    method = "method"
    epoch = "epoch"
    all = "all"


def costs(
    store: StorePath,
    by: Annotated[Level, typer.Option(help="One block per method, per epoch, or one for the store.")] = Level.method,
    epoch: Annotated[int | None, typer.Option(help="Only this epoch and what was added to it.")] = None,
    as_json: Json = False,
) -> None:
    """Print what a store cost: judge and verifier calls, tokens by role, hours by phase, per tree and per success.

    Example: sera data costs runs/demo/store --by epoch
    """
    facts = cost_facts(store, by=by, epoch=epoch)
    if as_json:
        print_json({"store": str(store), "by": by.value, **facts})
        return
    for name in QUERIES:
        print(f"\n{TITLES[name]}")
        for key, rows in _blocks(facts[name], by).items():
            print_table(COLUMNS[name], [[row[c] for c in COLUMNS[name]] for row in rows], title=key)


def cost_facts(store: Any, *, by: Level, epoch: int | None) -> dict[str, list[dict[str, Any]]]:
    """Rows of the three queries at one level; UsageError for an epoch that is not there."""
    from sera_data.queries import query

    opened = open_path(store)
    connection = opened.connect(epochs=None if epoch is None else [epoch])
    if epoch is not None and not opened.listing(epochs=[epoch]).sources:
        msg = f"store {store} has no epoch {epoch}"
        raise UsageError(msg, hint="sera data ls STORE lists the epochs")
    frames = {name: connection.sql(query(name)).pl() for name in QUERIES}
    return {name: frame.filter(frame["level"] == by.value).to_dicts() for name, frame in frames.items()}


def _blocks(rows: list[dict[str, Any]], by: Level) -> dict[str, list[dict[str, Any]]]:
    """Rows by the title of their block."""
    blocks: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        method = row["method"] or "no method yet"
        title = {"method": method, "epoch": f"epoch {row['epoch']}, {method}", "all": "the whole store"}[by.value]
        if "n_trees" in row:
            title += f": {row['n_trees'] or 0} trees, {row['n_success'] or 0} successes"
        blocks.setdefault(title, []).append(row)
    return blocks
