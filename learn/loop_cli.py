"""`sera loop`: alternate collect and learn phases in one run directory.

Invariant: the command can be killed at any moment and repeated; it continues, and ends with the same store.

Run: ``sera loop --config FILE --out runs/NAME``.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from learn.config import LoopConfig

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.command()
def loop(
    *,
    config: Annotated[Path, typer.Option(help="YAML file of the loop: epochs, policy, collect, learn.")],
    out: Annotated[Path, typer.Option(help="Directory of the run; made when it is not there.")],
    policy: Annotated[str | None, typer.Option(help="Start policy instead of the config's: pocket or a path.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override of a setting, a.b=value; may be repeated.")
    ] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Run `sera audit` on the store at the end.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show config and steps; do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final figures as JSON.")] = False,
) -> None:
    """Collect an epoch, seal it, learn from it, and again; every phase is a process that can be resumed.

    Example: sera loop --config configs/pocket_learns.yaml --out runs/pocket --set epochs=4 --audit
    """
    from learn.config import LoopConfig
    from sera_data.config import load_config

    extra = [f"policy={json.dumps(policy)}"] if policy else []
    play_loop(load_config(LoopConfig, config, [*(overrides or []), *extra]), out, audit, dry_run, as_json)


def play_loop(config: LoopConfig, out: Path, audit: bool, dry_run: bool, as_json: bool) -> None:
    """Play a loop and show its report."""
    from collect.interruption import Interruption
    from learn.loop import Loop
    from learn.loop_report import loop_report, print_report
    from learn.run_lock import sole_process

    played = Loop(config, out)
    if dry_run:
        _show(played, as_json=as_json)
        return
    started = time.monotonic()
    with Interruption().active(), sole_process(out, work="loop"):
        played.open()
        _play(played)
        report: dict[str, Any] = {
            **loop_report(played.store),
            "policy": str(played.policy()),
            "version": played.version(),
        }
        if audit:
            report["page"] = _audit(played.store, out)
        if played.divergence is not None:
            report["stopped"] = played.divergence
    report["seconds"] = round(time.monotonic() - started, 1)
    if as_json:
        typer.echo(json.dumps(report))
        _end(played)
        return
    print_report(report)
    typer.echo(f"policy of version {report['version']}: {report['policy']}")
    typer.echo(f"report: {report['page']}" if audit else f"audit it: sera audit {played.store}")
    typer.echo(f"{report['seconds']:.0f} s")
    _end(played)


def _end(played: Any) -> None:
    """Exit code 3 when the loop ended because scores run away from labels."""
    if played.divergence is None:
        return
    from sera_data.errors import GateFailed

    steps = ", ".join(f"{bias:+.3f}" for bias in played.divergence["biases"])
    msg = f"score minus label rose over two epochs ({steps}, epochs {played.divergence['epochs']}), so it ended"
    raise GateFailed(msg, hint=f"see 'sera audit {played.store}'; stop: never goes on all the same")


def _play(played: Any) -> None:
    from rich.console import Console

    console = Console(stderr=True)
    started = time.monotonic()

    def announce(step: Any, total: int) -> None:
        number = played.steps.index(step) + 1
        passed = time.monotonic() - started
        text = f"[{number}/{total}] {step.kind} {step.index} with policy version {played.version()}  ({passed:.0f} s)"
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    played.play(announce)


def _audit(store: Path, out: Path) -> str:
    from learn.process import run_phase

    page = out / "report.html"
    run_phase(["audit", store, "--html", page, "--gates", "none"])
    return str(page)


def _show(played: Any, *, as_json: bool) -> None:
    version = played.version()
    body = {
        "start": {"policy": str(played.policy()), "version": version},
        "steps": [f"{kind} {index}" for kind, index in played.plan()],
        "groups_of_first_epoch": played.groups(version),
        "samples": played.config.collect.samples,
        "config": played.config.resolved(),
    }
    if as_json:
        typer.echo(json.dumps(body))
        return
    import yaml

    typer.echo(yaml.safe_dump(body, sort_keys=False, allow_unicode=True), nl=False)
