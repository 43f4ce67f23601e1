"""`sera data`: look into, exchange, seal, verify, snapshot and clean a store.

Invariant: `ls`, `sql`, `shell`, `describe`, `costs`, `export`, `push` and `verify` change nothing in the store. Heavy
modules are imported inside the commands.

Run: ``sera data ls STORE``, ``sera data sql STORE "select ..."``.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import typer

from sera_data import costs_cli, describe_cli, export_cli, hub_cli, import_cli, shell_cli, sql_cli, upkeep_cli
from sera_data.printing import print_json, print_table
from sera_data.store_argument import Json, StorePath, open_path

if TYPE_CHECKING:
    from sera_data.store import Store

GROUP = "sera.data"
app = typer.Typer(
    help="Look into, exchange, seal, verify and clean a store.\n\nExample: sera data ls runs/demo/store",
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)


@app.command()
def ls(store: StorePath, as_json: Json = False) -> None:
    """List plans, their units and seals, and snapshots.

    Example: sera data ls runs/demo/store
    """
    from sera_data.plan import plan_names, read_plan

    opened = open_path(store)
    plans = [_plan_facts(opened, read_plan(opened, name)) for name in plan_names(opened)]
    snapshots = sorted(path.stem for path in opened.layout.snapshots.glob("*.json"))
    if as_json:
        print_json({"store": str(store), "plans": plans, "snapshots": snapshots})
        return
    columns = ("plan", "phase", "run_id", "units", "committed", "state", "nodes", "turns", "bytes", "content_hash")
    rows = [[_short(plan[c]) if c == "content_hash" else plan[c] for c in columns] for plan in plans]
    print_table(columns, rows, title=f"store {store}: {len(plans)} plans")
    for name in snapshots:
        print(f"snapshot {name}")


app.command()(sql_cli.sql)


app.command()(describe_cli.describe)
app.command()(shell_cli.shell)
app.command()(costs_cli.costs)
app.command()(export_cli.export)
app.command("import")(import_cli.import_)
app.command()(hub_cli.push)
app.command()(hub_cli.pull)
for command in (upkeep_cli.seal, upkeep_cli.verify, upkeep_cli.snapshot, upkeep_cli.gc):
    app.command()(command)


def _add_registered() -> None:
    """Commands that other packages add to `sera data` by the entry-point group `sera.data`."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        app.command(entry.name)(entry.load())


def _plan_facts(store: Store, plan: Any) -> dict[str, Any]:
    from sera_data.listing import Listing, seal_source, shard_source

    committed = plan.committed()
    sealed = plan.sealed()
    shards = [plan.shard_id(unit) for unit in plan.unit_ids if unit in committed]
    sources = [seal_source(store, plan.name)] if sealed else [shard_source(store, shard) for shard in shards]
    listing = Listing(store.path, tuple(sources))
    tables = {name for source in sources for name, *_ in source.files}
    seal_body = store.seal_document(plan.name) if sealed else {}
    state = "open" if not sealed else "partial" if seal_body["partial"] else "sealed"
    return {
        "plan": plan.name,
        "epoch": plan.epoch,
        "addition": plan.addition,
        "phase": plan.phase,
        "run_id": plan.run_id,
        "units": len(plan.unit_ids),
        "committed": len(committed),
        "missing": sorted(set(plan.unit_ids) - committed),
        "state": state,
        "nodes": listing.rows("nodes"),
        "turns": listing.rows("turns"),
        "bytes": sum(listing.bytes(table) for table in tables),
        "content_hash": seal_body.get("content_hash"),
    }


def _short(value: str | None) -> str:
    return "" if value is None else value[:12]


_add_registered()
