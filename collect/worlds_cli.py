"""`sera worlds`: the registered worlds, how they fork, which tools they give, and whether they keep their promises.

Invariant: a world of another package that cannot be loaded is listed with its fault and hides none of the others.

Run: ``sera worlds`` or ``sera worlds check textcraft``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback(invoke_without_command=True)
def worlds(ctx: typer.Context, *, as_json: Json = False) -> None:
    """List the registered worlds with their profiles, fork and tools.

    Packages add worlds by the entry-point group `sera.worlds`; MODULE:CLASS names one that is not installed.

    Example: sera worlds --json
    """
    if ctx.invoked_subcommand is not None:
        return
    import json

    from collect.worlds import registered

    rows = [_facts(name, entry) for name, entry in registered().items()]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        if row["fault"] is not None:
            typer.echo(f"{row['world']}: cannot be loaded: {row['fault']}")
            continue
        profiles = ", ".join(row["profiles"])
        typer.echo(f"{row['world']}: profiles {profiles} · fork {row['fork']} · checker {row['version']}")
        for tool in row["tools"]:
            typer.echo(f"  {tool['name']:<15} {tool['doc']}")


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="Registered world, or MODULE:CLASS.")],
    *,
    profile: Annotated[str | None, typer.Option(help="Profile; the world's default without it.")] = None,
    tasks: Annotated[Path | None, typer.Option(help="Task file; else tasks that the world offers.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="Policy that plays as well, for example scripted:teacher in worlds it knows.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Test a world: purity, determinism, digests, forks, replay, and that no prompt holds a reward or a verdict.

    Exit code 3 when a check fails, with its name.

    Example: sera worlds check textcraft --policy scripted:teacher

    Example: sera worlds check examples.own_world:Maze --json
    """
    import json
    from dataclasses import asdict

    from collect.task_file import read_tasks
    from collect.world_check import check_world, sample_tasks
    from collect.worlds import default_profile, open_world
    from sera_data.errors import GateFailed

    world = open_world(name, profile=profile or default_profile(name))
    chosen = sample_tasks(world, name) if tasks is None else read_tasks(tasks, profile=world.profile)
    rows = check_world(world, chosen, policy=policy)
    if as_json:
        typer.echo(json.dumps({"world": name, "profile": world.profile, "checks": [asdict(row) for row in rows]}))
    else:
        for row in rows:
            typer.echo(f"{row.check:<12} {row.status}" + (f": {row.detail}" if row.detail else ""))
    failed = [row for row in rows if row.status == "failed"]
    if failed:
        msg = f"world {name!r} fails {', '.join(row.check for row in failed)}: {failed[0].detail}"
        raise GateFailed(msg, hint="see docs/worlds.md for what a world promises")


def _facts(name: str, entry: Any) -> dict[str, Any]:
    try:
        world = entry.load()()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        return {"world": name, "fault": str(error), "from": entry.value}
    return {
        "world": name,
        "fault": None,
        "from": entry.value,
        "profiles": list(getattr(world, "profiles", (world.profile,))),
        "fork": world.fork,
        "version": world.version,
        "tools": [{"name": tool.name, "example": tool.example, "doc": tool.doc} for tool in world.tools()],
    }
