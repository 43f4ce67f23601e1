"""`sera data costs`: judge and verifier calls, tokens by role and wall time, per method, tree and success; and money.

Invariant: every number comes out of `queries/cost_*.sql`; a figure that was not recorded is empty, never 0 by guess.

Run: ``sera data costs STORE``, or with ``--prices prices.yaml`` for what the calls cost.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sera_data.errors import UsageError
from sera_data.printing import print_json, print_table
from sera_data.store_argument import Json, StorePath, open_path

if TYPE_CHECKING:
    from sera_data.prices import Prices

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

PRICED = (
    "run_id",
    "epoch",
    "role",
    "model",
    "n_calls",
    "n_prompt_tokens",
    "n_cached_tokens",
    "n_completion_tokens",
    "cost",
    "stored",
)
"""Columns of `cost_prices`; stored: what was written down when the calls were made."""


class Level(StrEnum):
    """How finely costs are split."""

    method = "method"
    epoch = "epoch"
    all = "all"


def costs(
    store: StorePath,
    by: Annotated[Level, typer.Option(help="One block per method, per epoch, or one for the store.")] = Level.method,
    epoch: Annotated[int | None, typer.Option(help="Only this epoch and what was added to it.")] = None,
    prices: Annotated[
        Path | None, typer.Option(help="Price file: add what the calls cost by run, epoch, role and model.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what a store cost: judge and verifier calls, tokens by role, hours by phase, per tree and per success.

    Example: sera data costs runs/demo/store --by epoch
    """
    facts = cost_facts(store, by=by, epoch=epoch)
    priced = None if prices is None else price_facts(store, _read(prices), epoch=epoch)
    if as_json:
        print_json(
            {"store": str(store), "by": by.value, **facts, **({} if priced is None else {"cost_prices": priced})}
        )
        return
    for name in QUERIES:
        print(f"\n{TITLES[name]}")
        for key, rows in _blocks(facts[name], by).items():
            print_table(COLUMNS[name], [[row[c] for c in COLUMNS[name]] for row in rows], title=key)
    if priced is not None:
        _print_prices(priced)


def _read(path: Path) -> Prices:
    from sera_data.prices import read_prices

    return read_prices(path)


def price_facts(store: Any, prices: Prices, *, epoch: int | None) -> dict[str, Any]:
    """Calls, tokens and amounts by run, epoch, role and model, and their sum; models without a price are named."""
    from sera_data.queries import query

    connection = open_path(store).connect(epochs=None if epoch is None else [epoch])
    pairs = connection.sql(query("cost_models")).fetchall()
    connection.register("prices", prices.table(pairs))
    rows = connection.sql(query("cost_prices")).pl().to_dicts()
    known = [row["cost"] for row in rows if row["cost"] is not None]
    unpriced = sorted({f"{row['model']} as {row['role']}" for row in rows if row["input"] is None})
    return {"currency": prices.currency, "total": sum(known) if known else None, "unpriced": unpriced, "rows": rows}


def _print_prices(priced: dict[str, Any]) -> None:
    rows = [[_amount(row[name]) for name in PRICED] for row in priced["rows"]]
    total = "-" if priced["total"] is None else _amount(priced["total"])
    print(f"\nWhat the calls cost: {total} {priced['currency']}")
    print_table(PRICED, rows)
    if priced["unpriced"]:
        print(f"without a price: {', '.join(priced['unpriced'])}")


def _amount(value: Any) -> Any:
    """Money with six digits, so that a cheap call does not look free."""
    return f"{value:.6g}" if isinstance(value, float) else value


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
