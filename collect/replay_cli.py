"""`sera data replay`: play stored nodes again, action by action, and compare with what is stored.

Invariant: nothing is written; exit code 0 only when every node asked for came out as stored.

Run: ``sera data replay NODE STORE`` or ``sera data replay --all STORE``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sera_data.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from collect.replay import Replay


def replay(
    names: Annotated[list[str], typer.Argument(metavar="[NODE] STORE...", help="Node id, then stores that hold it.")],
    every: Annotated[bool, typer.Option("--all", help="Every node of the stores; give no NODE.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Execute a stored node's actions again, with its committed children's, and compare the end with the store.

    Exit code 1 with the first action that came out differently. A node off the path replays like any other; nodes
    that an infrastructure fault ended have no end to reach and are counted apart.

    Example: sera data replay r0123456789abcdef/t1d0b3 runs/demo/store
    Then: sera data replay --all runs/demo/store
    """
    node, stores = (None, names) if every else (names[0], names[1:])
    if not stores:
        msg = "no STORE given"
        raise UsageError(msg, hint="sera data replay NODE STORE, or sera data replay --all STORE")
    counts = {"same": 0, "different": 0, "no_end": 0}
    faults: list[Replay] = []
    n_calls = 0
    for result in _replays(node, [Path(name) for name in stores]):
        counts[result.status] += 1
        n_calls += result.n_calls
        if result.status == "different" or (node is not None and result.status == "no_end"):
            faults.append(result)
    _print(counts, n_calls, faults, as_json=as_json)
    if faults:
        raise typer.Exit(1)


def _replays(node: str | None, stores: list[Path]) -> Iterator[Replay]:
    from rich.console import Console
    from rich.progress import track

    from collect.replay_store import BATCH, replay_trees, trees_with
    from sera_data.errors import StoreError
    from sera_data.store import open_store

    opened = [open_store(path) for path in stores]
    console = Console(stderr=True)
    missing: list[StoreError] = []
    for store in opened:
        try:
            trees = trees_with(store, node)
        except StoreError as fault:
            missing.append(fault)
            continue
        batches = [trees[first : first + BATCH] for first in range(0, len(trees), BATCH)]
        quiet = not console.is_terminal
        for batch in track(batches, description="replay", console=console, disable=quiet, transient=True):
            yield from replay_trees(store, batch, node_id=node)
    if missing and len(missing) == len(opened):
        raise missing[0]


def _print(counts: dict[str, int], n_calls: int, faults: list[Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"nodes": counts, "calls": n_calls, "different": [f.facts() for f in faults]}))
        return
    for fault in faults:
        typer.echo(_line(fault))
    ended = f", {counts['no_end']} without an end" if counts["no_end"] else ""
    typer.echo(
        f"{counts['same']} nodes as stored, {counts['different']} different{ended}; {n_calls} calls played again"
    )


def _line(fault: Replay) -> str:
    if fault.difference is None:
        return f"{fault.node_id}: an infrastructure fault ended it, there is no end state to reach"
    found = fault.difference
    where = " ".join(part for part in (found.turn_id or found.node_id, found.action) if part)
    return (
        f"{fault.node_id}: differs after {fault.n_calls} calls at {found.event} {where}:"
        f" {found.what} was {found.stored!r}, is now {found.replayed!r}"
    )
