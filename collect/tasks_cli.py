"""`sera tasks`: build tasks of generated worlds, or import the published ones.

Invariant: the same options give the same file, byte for byte; nothing is written when a line or an option is wrong.

Run: ``sera tasks build textcraft --world-seed 42 --items-per-tier 25 --split val --out val.jsonl``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from collect import textworld_cli

if TYPE_CHECKING:
    from collections.abc import Sequence

    from collect.world import Task

app = typer.Typer(
    help="Build or import tasks.\n\nExample: sera tasks build textcraft --split val --out val.jsonl",
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)
builds = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)
imports = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)
app.add_typer(builds, name="build", help="Build the tasks of a world. Example: sera tasks build textworld --split test")
app.add_typer(imports, name="import", help="Import published tasks. Example: sera tasks import textcraft val.jsonl")
builds.command("textworld")(textworld_cli.build)
imports.command("textworld")(textworld_cli.import_file)

Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
POOL_ONLY = ("max_tier", "n", "counts", "tier_mix")


@builds.command("textcraft")
def build(
    *,
    out: Annotated[Path | None, typer.Option(help="Task file to write; without it only the summary is shown.")] = None,
    world_seed: Annotated[int | None, typer.Option(help="Seed of the one world of a published split (42).")] = None,
    worlds: Annotated[
        str | None, typer.Option(help="Build a pool over these worlds instead: 1000-1063 or 3,5,8.")
    ] = None,
    items_per_tier: Annotated[
        int | None, typer.Option(help="Items per domain and tier (published split 25, pool 8).")
    ] = None,
    split: Annotated[str | None, typer.Option(help="train or val; for a pool any word (val, pool: train).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the inventories and of a pool's choice.")] = 0,
    surplus: Annotated[
        float | None,
        typer.Option(
            help="Most base material given per unit needed, 1 = exactly enough"
            " (published split: the generous published rule; pool: 1.5)."
        ),
    ] = None,
    distractors: Annotated[int | None, typer.Option(help="Most kinds of material that are not needed.")] = None,
    max_tier: Annotated[int | None, typer.Option(help="Pool: highest tier of the worlds (3).")] = None,
    n: Annotated[int | None, typer.Option("--n", help="Pool: number of tasks (500).")] = None,
    counts: Annotated[str | None, typer.Option(help="Pool: counts of the goals, 1,2,3.")] = None,
    tier_mix: Annotated[str | None, typer.Option(help="Pool: shares of the tiers, 1=.2,2=.4,3=.4.")] = None,
    as_json: Json = False,
) -> None:
    """Build the tasks of a published split, or a pool of tasks over many worlds.

    The summary shows the canonical world hash, the number of tasks per difficulty and the hash of the goal set.

    Example: sera tasks build textcraft --world-seed 42 --items-per-tier 25 --split val --out val.jsonl

    Example: sera tasks build textcraft --worlds 1000-1063 --max-tier 3 --n 500 --out pool.jsonl
    """
    from collect.task_file import write_tasks
    from collect.textcraft_tasks import build_tasks

    given: dict[str, Any] = {
        "worlds": worlds,
        "world_seed": world_seed,
        "items_per_tier": items_per_tier,
        "split": split,
        "seed": seed,
        "surplus": surplus,
        "distractors": distractors,
        "max_tier": max_tier,
        "n": n,
        "counts": None if counts is None else _counts(counts),
        "tier_mix": None if tier_mix is None else _mix(tier_mix),
    }
    params = {name: value for name, value in given.items() if value is not None}
    _check_kind(params)
    tasks = build_tasks(params)
    if out is not None:
        write_tasks(out, tasks)
    _show(summary(tasks, out), as_json=as_json)


@imports.command("textcraft")
def import_tasks(
    file: Annotated[Path, typer.Argument(help="Published JSONL file.")],
    *,
    out: Annotated[Path | None, typer.Option(help="Task file to write; without it only the summary is shown.")] = None,
    world_seed: Annotated[int, typer.Option(help="Seed of the world that the file was made for.")] = 42,
    items_per_tier: Annotated[int, typer.Option(min=1, max=1000, help="Items per domain and tier of that world.")] = 25,
    as_json: Json = False,
) -> None:
    """Import a published TextCraft-Synth file: goals, inventories and ids as published, each checked to be solvable.

    Example: sera tasks import textcraft textcraft_synth_val.jsonl --out val.jsonl
    """
    from collect.task_file import import_published, write_tasks

    tasks = import_published(file, world_seed=world_seed, items_per_tier=items_per_tier)
    if out is not None:
        write_tasks(out, tasks)
    _show(summary(tasks, out), as_json=as_json)


def summary(tasks: Sequence[Task], out: Path | None) -> dict[str, Any]:
    """Hashes and counts of tasks."""
    from collections import Counter

    from collect.recipes import recipe_book
    from collect.textcraft_tasks import goal_set_hash
    from sera_data.canonical import sha256_text

    keys = sorted({(t.spec["world_seed"], t.spec["items_per_tier"], t.spec["max_tier"]) for t in tasks})
    hashes = [recipe_book(*key).world_hash for key in keys]
    goals = [(item, count) for task in tasks for item, count in task.spec["targets"].items()]
    return {
        "world": tasks[0].world,
        "profile": tasks[0].profile,
        "split": tasks[0].split,
        "n_worlds": len(keys),
        "world_hash": hashes[0] if len(hashes) == 1 else sha256_text("\n".join(hashes)),
        "n_tasks": len(tasks),
        "difficulties": dict(Counter(task.difficulty for task in tasks)),
        "goal_set_hash": goal_set_hash(goals),
        "tasks_hash": sha256_text("\n".join(sorted(task.task_id for task in tasks))),
        "out": None if out is None else str(out),
    }


def _check_kind(params: dict[str, Any]) -> None:
    from sera_data.errors import UsageError

    if "worlds" in params and "world_seed" in params:
        msg = "--worlds and --world-seed exclude each other"
        raise UsageError(msg, hint="a pool takes --worlds, a published split takes --world-seed")
    extra = [name for name in POOL_ONLY if name in params and "worlds" not in params]
    if extra:
        msg = f"--{extra[0].replace('_', '-')} is for pools only"
        raise UsageError(msg, hint="name the worlds of the pool, for example --worlds 1000-1063")


def _counts(text: str) -> list[int]:
    from sera_data.errors import UsageError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        msg = f"--counts wants numbers like 1,2,3, got {text!r}"
        raise UsageError(msg) from None


def _mix(text: str) -> dict[int, float]:
    from sera_data.errors import UsageError

    try:
        pairs = [part.split("=") for part in text.split(",")]
        return {int(tier): float(share) for tier, share in pairs}
    except ValueError:
        msg = f"--tier-mix wants shares like 1=.2,2=.4,3=.4, got {text!r}"
        raise UsageError(msg) from None


def _show(facts: dict[str, Any], *, as_json: bool) -> None:
    import json

    if as_json:
        typer.echo(json.dumps(facts))
        return
    worlds = "1 world" if facts["n_worlds"] == 1 else f"{facts['n_worlds']} worlds"
    bands = ", ".join(f"{name} {count}" for name, count in sorted(facts["difficulties"].items()))
    typer.echo(f"{facts['world']} {facts['profile']}, split {facts['split']}, {worlds}")
    typer.echo(f"world hash     {facts['world_hash']}")
    typer.echo(f"goal set hash  {facts['goal_set_hash']}")
    typer.echo(f"tasks hash     {facts['tasks_hash']}")
    typer.echo(f"tasks          {facts['n_tasks']} ({bands})")
    if facts["out"] is not None:
        typer.echo(f"written to     {facts['out']}")
