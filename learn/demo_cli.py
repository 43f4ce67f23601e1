"""`sera demo`: the whole loop with the pocket policy on this machine, then the audit.

Invariant: needs no GPU, no download and no account; the config is package data, so it runs from the wheel.

Run: ``sera demo``; its configs are `learn/presets/demo*.yaml`, those of `sera loop` with small numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)

PRESETS = {
    "textcraft": Path(__file__).parent / "presets" / "demo.yaml",
    "textworld": Path(__file__).parent / "presets" / "demo_textworld.yaml",
}


@app.command()
def demo(
    *,
    out: Annotated[
        Path | None, typer.Option(help="Directory of the run [default: runs/demo or runs/demo_textworld].")
    ] = None,
    world: Annotated[str, typer.Option(help="textcraft or textworld.")] = "textcraft",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override of a setting, a.b=value; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show config and steps; do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final figures as JSON.")] = False,
) -> None:
    """Collect, learn in all three stages, collect again with the new weights, audit: some minutes on two cores.

    Example: sera demo      or: sera demo --world textworld

    Then: sera data sql runs/demo/store "select * from updates"
    """
    from learn.config import LoopConfig
    from learn.loop_cli import play_loop
    from sera_data.config import load_config
    from sera_data.errors import UsageError

    if world not in PRESETS:
        msg = f"no demo of world {world!r}; allowed: {', '.join(PRESETS)}"
        raise UsageError(msg, hint="sera loop --config FILE plays any world")
    preset = PRESETS[world]
    config = load_config(LoopConfig, preset, overrides or [])
    play_loop(config, out or Path("runs") / preset.stem, True, dry_run, as_json)
