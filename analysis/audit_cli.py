"""The `sera audit` command.

Invariant: reads only; writes the page where `--html` says, else as `audit.html` beside the store; `--json` prints one
JSON object to stdout and nothing else.
Run: ``sera audit runs/demo/store``
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sera_data.errors import UsageError

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.command()
def audit(
    store: Annotated[Path, typer.Argument(help="Store to audit: the directory that holds store.json.")],
    html: Annotated[
        Path | None, typer.Option("--html", help="Where to write the page; default: STORE-audit.html beside the store.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    epoch: Annotated[list[int] | None, typer.Option("--epoch", help="Only this epoch; may be given again.")] = None,
    snapshot: Annotated[str | None, typer.Option("--snapshot", help="Only what this snapshot names.")] = None,
    sealed: Annotated[bool, typer.Option("--sealed", help="Only sealed directories, no open shards.")] = False,
    gates: Annotated[
        str | None, typer.Option("--gates", help="Gates file, or 'default': exit with code 3 when a gate fails.")
    ] = None,
    reps: Annotated[
        int, typer.Option("--reps", min=0, max=100_000, help="Bootstrap replicates over tasks; 0: no intervals.")
    ] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 17,
    margin: Annotated[float, typer.Option("--margin", help="Margin of the rubric loss.")] = 0.2,
) -> None:
    """Audit whether rubric scores mean anything: ranking, calibration, coverage, gates, and one HTML page.

    Examples:  sera audit examples/store   ·   sera audit STORE --json --reps 0   ·   sera audit STORE --gates default
    """
    from analysis.audit import run_audit
    from analysis.gates import enforce, load_gates

    if not 0 <= margin <= 1:  # scores lie between 0 and 1; NaN is refused too
        msg = f"--margin must be between 0 and 1, got {margin}"
        raise UsageError(msg)
    rules = load_gates(None if gates in (None, "default") else Path(gates))
    result = run_audit(
        store,
        view="sealed" if sealed else "live",
        snapshot=snapshot,
        epochs=epoch or None,
        reps=reps,
        seed=seed,
        margin=margin,
        gates=rules,
    )
    if html is not None or not json:
        from analysis.page import write_page

        page = html if html is not None else store.resolve().parent / f"{store.resolve().name}-audit.html"
        write_page(result, page)
        result = result.model_copy(update={"html": str(page)})
    if json:
        typer.echo(result.model_dump_json(indent=1))
    else:
        _print(result)
    if gates is not None:
        enforce(result.gates)


def _print(result: object) -> None:
    from rich.console import Console

    from analysis.report import print_audit
    from analysis.results import Audit

    assert isinstance(result, Audit)
    console = Console(highlight=False, soft_wrap=False)
    print_audit(result, console)
    console.print(f"\nPage: {result.html}", soft_wrap=True)
