"""`sera demo`: the whole loop with the pocket policy on this machine, then the audit.

Invariant: needs no GPU, no download and no account; the config is package data, so it runs from the wheel.

Run: ``sera demo``; its config is `learn/presets/demo.yaml`, that of `sera loop` with small numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)

PRESET = Path(__file__).parent / "presets" / "demo.yaml"


@app.command()
def demo(
    *,
    out: Annotated[Path, typer.Option(help="Directory of the run.")] = Path("runs/demo"),
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override of a setting, a.b=value; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show config and steps; do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final figures as JSON.")] = False,
) -> None:
    """Collect, learn in all three stages, collect again with the new weights, audit: some minutes on two cores.

    Example: sera demo --out runs/demo      then: sera data sql runs/demo/store "select * from updates"
    """
    from learn.config import LoopConfig
    from learn.loop_cli import play_loop
    from sera_data.config import load_config

    play_loop(load_config(LoopConfig, PRESET, overrides or []), out, True, dry_run, as_json)
