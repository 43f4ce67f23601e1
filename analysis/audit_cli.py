"""The `sera audit` command.

Invariant: reads only; writes the page where `--html` says, else as `audit.html` beside the store; `--json` prints one
JSON object to stdout and nothing else.
Run: ``sera audit runs/demo/store``
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sera_data.errors import UsageError
from sera_data.place import file_beside, place

if TYPE_CHECKING:
    from analysis.cross import Crossed
    from analysis.results import Audit

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.command()
def audit(
    store: Annotated[
        Path, typer.Argument(parser=place, metavar="STORE", help="Store to audit: the directory that holds store.json.")
    ],
    html: Annotated[
        Path | None, typer.Option("--html", help="Where to write the page; default: STORE-audit.html beside the store.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Print every metric and slice, not only the summary.")] = False,
    epoch: Annotated[list[int] | None, typer.Option("--epoch", help="Only this epoch; may be given again.")] = None,
    snapshot: Annotated[str | None, typer.Option("--snapshot", help="Only what this snapshot names.")] = None,
    sealed: Annotated[bool, typer.Option("--sealed", help="Only sealed directories, no open shards.")] = False,
    held_out: Annotated[
        float | None,
        typer.Option(
            "--held-out", min=0, max=1, help="Only the tasks that learn's hold_out of this share never trained, as 0.2."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", help="Compare with an older audit: a snapshot's name, a store, a .json or .html of it."
        ),
    ] = None,
    gates: Annotated[
        str, typer.Option("--gates", help="Gates file, 'default', or 'none': never exit with code 3.")
    ] = "default",
    cross: Annotated[
        Path | None,
        typer.Option(
            "--cross",
            help="YAML file of writers and scorers: measure each pair on this store of probes; with --html, in a page.",
        ),
    ] = None,
    reps: Annotated[
        int, typer.Option("--reps", min=0, max=100_000, help="Bootstrap replicates over tasks; 0: no intervals.")
    ] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 17,
    margin: Annotated[float, typer.Option("--margin", help="Margin of the rubric loss.")] = 0.2,
) -> None:
    """Audit whether rubric scores mean anything: ranking, calibration, coverage, gates, and one HTML page.

    Exits with code 3 when a gate fails.

    Examples:  sera audit examples/store   ·   sera audit STORE --json --reps 0   ·   sera audit STORE --against OLD
    """
    from analysis.audit import run_audit
    from analysis.gates import enforce, load_gates

    if not 0 <= margin <= 1:  # scores lie between 0 and 1; NaN is refused too
        msg = f"--margin must be between 0 and 1, got {margin}"
        raise UsageError(msg)
    apart = None if cross is None else _cross(store, cross, reps=reps, seed=seed, margin=margin)
    if apart is not None and html is None:
        _print_cross(apart, as_json=json)
        return
    rules = load_gates(None if gates in ("default", "none") else Path(gates))
    result = run_audit(
        store,
        view="sealed" if sealed else "live",
        snapshot=snapshot,
        epochs=epoch or None,
        held_out=held_out,
        reps=reps,
        seed=seed,
        margin=margin,
        gates=rules,
        against=against,
    )
    if html is not None or not json:
        from analysis.page import write_page

        page = html if html is not None else file_beside(store.resolve(), f"{store.resolve().name}-audit.html")
        _say_what_changed(result, page)
        write_page(result, page, crossed=apart)
        result = result.model_copy(update={"html": str(page)})
    if apart is not None:
        _print_cross(apart.model_copy(update={"html": result.html}), as_json=json)
    elif json:
        typer.echo(result.model_dump_json(indent=1))
    else:
        _print(result, full=full)
    if gates != "none":
        enforce(result.gates)


def _say_what_changed(result: Audit, page: Path) -> None:
    """One warning when the page that is about to be replaced was measured for something else."""
    from analysis.against import read_audit
    from analysis.identity import differences

    old = read_audit(page)
    found = differences(old["identity"], result.identity) if old is not None else []
    if found:
        typer.echo(f"note: the older {page} no longer matches this store: {'; '.join(found)}", err=True)


def _cross(store: Path, config: Path, *, reps: int, seed: int, margin: float) -> Crossed:
    """Let the package that can call policies ask them, and measure the answers; analysis itself never calls one."""
    from importlib.metadata import entry_points

    from analysis.cross import crossed

    found = next(iter(entry_points(group="sera.cross")), None)
    if found is None:
        msg = "'sera audit --cross' needs the package 'collect', which is not installed here"
        raise UsageError(msg, hint="reinstall sera-data; the entry point group is sera.cross")
    lines, about = found.load()(store, config)
    return crossed(lines, about, store=str(store), reps=reps, seed=seed, margin=margin)


def _print_cross(result: Crossed, *, as_json: bool) -> None:
    from rich.console import Console

    from analysis.cross import print_crossed

    if as_json:
        typer.echo(result.model_dump_json(indent=1))
        return
    console = Console(highlight=False)
    print_crossed(result, console)
    if result.html:
        console.print(f"\nPage: {result.html}", soft_wrap=True)


def _print(result: Audit, *, full: bool) -> None:
    from rich.console import Console

    from analysis.report import print_audit

    console = Console(highlight=False, soft_wrap=False)
    print_audit(result, console, detail="full" if full else "summary")
    console.print(f"\nPage: {result.html}", soft_wrap=True)
