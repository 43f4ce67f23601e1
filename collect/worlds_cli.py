"""`sera worlds`: the registered worlds, how they fork and which tools they give.

Invariant: a world of another package that cannot be loaded is listed with its fault and hides none of the others.

Run: ``sera worlds`` or ``sera worlds --json``.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def worlds(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the registered worlds with their profiles, fork and tools.

    Packages add worlds by the entry-point group `sera.worlds`.

    Example: sera worlds --json
    """
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
