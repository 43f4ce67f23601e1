"""The audit on a terminal.

Invariant: leads with pair accuracy, hinge and debiased calibration, states coverage and names the worst slice before
any table; the same numbers as the page and the JSON.
"""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analysis.metrics import HEADLINES, METRICS, SECTIONS
from analysis.results import Audit, Slice
from analysis.wording import (
    DASH,
    UNITS,
    agents_text,
    agreement_sentence,
    basis_text,
    caution,
    count,
    coverage_sentence,
    interval_text,
    number,
    share,
    value_text,
    verdict,
)

COLOURS = {"pass": "green", "warn": "yellow", "fail": "red", "too few": "dim"}


def print_audit(audit: Audit, console: Console) -> None:
    """Print the whole report."""
    console.print(f"[bold]Rubric audit[/bold] of {escape(audit.identity.path)}")
    console.print(f"[bold]{verdict(audit.headline)}[/bold]\n")
    console.print(_headlines(audit))
    console.print(f"{coverage_sentence(audit.coverage, audit.shares)} {caution(audit.headline)}".strip())
    console.print(f"[bold]{escape(audit.worst_slice.text)}[/bold]\n")
    if audit.slices:
        console.print(_metrics(audit))
        console.print(_slices(audit.slices))
    if audit.epochs:
        console.print(_epochs(audit))
    _judges(audit, console)
    _gates(audit, console)
    _identity(audit, console)


def _headlines(audit: Audit) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right", style="bold")
    table.add_column()
    for name in HEADLINES:
        estimate = audit.headline[name]
        if estimate.value is None:
            table.add_row(METRICS[name].title, DASH, estimate.note or "not defined")
            continue
        interval = interval_text(estimate)
        spread = f"{interval}, " if interval != DASH else ""
        note = f"; {estimate.note}" if estimate.note else ""
        table.add_row(METRICS[name].title, value_text(estimate), f"{spread}{basis_text(estimate)}{note}")
    return table


def _metrics(audit: Audit) -> Table:
    table = Table(title="Metrics, with 95 % intervals over tasks", title_justify="left", box=None, pad_edge=False)
    for title in ("metric", "value", "95 % interval", "n"):
        table.add_column(title, justify="left" if title == "metric" else "right")
    for section, names in SECTIONS.items():
        table.add_row(f"[dim]{section}[/dim]")
        for name in names:
            estimate = audit.headline[name]
            n = count(estimate.n, UNITS[estimate.unit])
            table.add_row(f"  {METRICS[name].title}", value_text(estimate), interval_text(estimate), n)
    return table


def _slices(slices: list[Slice]) -> Table:
    table = Table(title="Slices", title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("slice", no_wrap=True)
    for title in ("accuracy", "95 % interval", "hinge", "bias", "calib.", "pairs", "tasks"):
        table.add_column(title, justify="right", no_wrap=True)
    for part in slices:
        metrics = part.metrics
        table.add_row(
            escape(f"{part.slice} {part.level}"),
            value_text(metrics["pair_accuracy"]),
            interval_text(metrics["pair_accuracy"]),
            value_text(metrics["mean_hinge"]),
            value_text(metrics["bias"]),
            value_text(metrics["calibration_error"]),
            f"{part.pairs:,}",
            f"{part.pair_tasks:,}",
        )
    return table


def _epochs(audit: Audit) -> Table:
    table = Table(title="Epochs", title_justify="left", box=None, pad_edge=False)
    for title in ("epoch", "trees", "success", "mixed", "pair accuracy", "hinge", "updates E/D/R", "skipped"):
        table.add_column(title, justify="right")
    for epoch in audit.epochs:
        stages = [epoch.updates.get(stage) for stage in ("execution", "delegation", "rubric")]
        table.add_row(
            str(epoch.epoch),
            f"{epoch.trees:,}",
            share(epoch.success),
            share(epoch.mixed_share),
            value_text(epoch.pair_accuracy),
            value_text(epoch.mean_hinge),
            "/".join(str(stage.updates if stage else 0) for stage in stages),
            str(sum(stage.skipped for stage in stages if stage)),
        )
    return table


def _judges(audit: Audit, console: Console) -> None:
    """Judges against the program, over everything; nothing when nobody but programs has labelled."""
    parts = [part for part in audit.agreement if part.slice == "all"]
    if parts:
        console.print("Judges against the program")
    for part in parts:
        console.print(f"  {escape(agreement_sentence(part))}")


def _gates(audit: Audit, console: Console) -> None:
    counts = {status: sum(gate.status == status for gate in audit.gates) for status in COLOURS}
    console.print("\nGates: " + ", ".join(f"[{COLOURS[s]}]{n} {s}[/{COLOURS[s]}]" for s, n in counts.items() if n))
    for gate in audit.gates:
        if gate.status in ("warn", "fail"):
            console.print(f"  [{COLOURS[gate.status]}]{gate.status}[/{COLOURS[gate.status]}] {escape(gate.text)}")


def _identity(audit: Audit, console: Console) -> None:
    identity = audit.identity
    agents = ", ".join(agents_text(identity.agents)) or "no scored nodes"
    seals = ", ".join(f"{name} {sha[:12]}" for name, sha in identity.seals.items()) or "none"
    console.print(
        f"\n[dim]Measured for {escape(agents)}. Seals: {seals}. Unsealed shards: {identity.unsealed_shards}.[/dim]"
    )
    console.print(
        f"[dim]Intervals: {audit.reps} Poisson bootstrap replicates over tasks, seed {audit.seed};"
        f" margin {number(audit.margin)}.[/dim]",
    )
