"""The audit on a terminal.

Invariant: leads with pair accuracy, hinge and debiased calibration, states coverage and names the worst slice before
any table; the same numbers as the page and the JSON.
"""

from __future__ import annotations

from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analysis.learning import stages
from analysis.metrics import CHECKS, HEADLINES, METRICS, SECTIONS
from analysis.results import Audit, Comparison, Slice
from analysis.sections import SECTIONS as SECTION_LIST
from analysis.wording import (
    DASH,
    KNOWN,
    MIN_SLICE_PAIRS,
    UNITS,
    agents_text,
    agreement_sentence,
    basis_text,
    caution,
    comparison_sentences,
    count,
    coverage_sentence,
    divergence_sentence,
    held_out_text,
    interval_text,
    number,
    share,
    slice_text,
    value_text,
    verdict,
)

COLOURS = {"pass": "green", "warn": "yellow", "fail": "red", "too few": "dim"}


def print_audit(audit: Audit, console: Console, *, detail: Literal["summary", "full"] = "summary") -> None:
    """Print the summary; `full` adds every metric."""
    share = audit.identity.held_out
    tasks = f", {held_out_text(share)}" if share is not None else ""
    console.print(f"[bold]Rubric audit[/bold] of {escape(audit.identity.path)}{tasks}")
    console.print(f"[bold]{verdict(audit.headline)}[/bold]\n")
    console.print(_headlines(audit))
    console.print(f"{coverage_sentence(audit.coverage, audit.shares)} {caution(audit.headline)}".strip())
    console.print(f"[bold]{escape(audit.worst_slice.text)}[/bold]\n")
    console.print(_sections(audit))
    _gates(audit, console)
    if detail == "full" and audit.slices:
        console.print(_metrics(audit))
    shown = [part for part in audit.slices if part.slice != "length" or detail == "full"]
    if shown:
        console.print(_slices(shown))
    if audit.epochs:
        console.print(_epochs(audit))
    if audit.divergence is not None:
        console.print(divergence_sentence(audit.divergence), style="bold red" if audit.divergence.rising else "")
    _judges(audit, console)
    if audit.comparison is not None:
        _comparison(audit.comparison, console)
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


def _sections(audit: Audit) -> Table:
    """One line per section: verdict of its gates, its headline; `worst`: unusable scores as worst."""
    table = Table(title="Sections", title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("section and headline", no_wrap=True)
    for title in ("value", "95 % interval", "worst", "n"):
        table.add_column(title, justify="right", no_wrap=True)
    for part, known in zip(audit.sections, SECTION_LIST, strict=True):
        status = f"[{COLOURS[part.status]}]{part.status}[/{COLOURS[part.status]}]"
        name = f"{part.number:>2} {known.short}"
        if part.headline is None:
            value, n = {
                "coverage": (share(audit.shares["mixed"]), audit.coverage["forked"]),
                "slices": (_worst_value(audit), len(audit.slices)),
                "items": (share(audit.items.saturated), len(audit.items.table)),
            }[part.key]
            table.add_row(status, name, value, "", "", f"{n:,}")
            continue
        estimate = part.headline
        worst = value_text(part.worst) if part.worst is not None else ""
        table.add_row(status, name, value_text(estimate), interval_text(estimate), worst, f"{estimate.n:,}")
    return table


def _worst_value(audit: Audit) -> str:
    worst = audit.worst_slice
    found = [part for part in audit.slices if (part.slice, part.level) == (worst.slice, worst.level)]
    return value_text(found[0].metrics["pair_accuracy"]) if found else DASH


def _metrics(audit: Audit) -> Table:
    table = Table(title="Metrics, with 95 % intervals over tasks", title_justify="left", box=None, pad_edge=False)
    for title in ("metric", "value", "95 % interval", "n"):
        table.add_column(title, justify="left" if title == "metric" else "right")
    known = {**audit.headline, **audit.checks}
    for section, names in {**SECTIONS, "Drift, leaks and hacking": tuple(CHECKS)}.items():
        table.add_row(f"[dim]{section}[/dim]")
        for name in names:
            estimate = known[name]
            n = count(estimate.n, UNITS[estimate.unit])
            table.add_row(f"  {KNOWN[name].title}", value_text(estimate), interval_text(estimate), n)
    return table


def _slices(slices: list[Slice]) -> Table:
    table = Table(title="Slices", title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("slice", no_wrap=True)
    for title in ("accuracy", "95 % interval", "hinge", "bias", "calib.", "pairs", "tasks"):
        table.add_column(title, justify="right", no_wrap=True)
    for part in slices:
        metrics = part.metrics
        few = part.pairs < MIN_SLICE_PAIRS
        table.add_row(
            escape(slice_text(part.slice, part.level)),
            value_text(metrics["pair_accuracy"]) if not few else "too few",
            interval_text(metrics["pair_accuracy"]) if not few else DASH,
            value_text(metrics["mean_hinge"]) if not few else DASH,
            value_text(metrics["bias"]),
            value_text(metrics["calibration_error"]),
            f"{part.pairs:,}",
            f"{part.pair_tasks:,}",
        )
    return table


def _epochs(audit: Audit) -> Table:
    table = Table(title="Epochs", title_justify="left", box=None, pad_edge=False)
    columns = stages(audit.epochs)
    steps = f"updates {'/'.join(stage[0].upper() for stage in columns)}"
    for title in ("epoch", "trees", "success", "mixed", "pair accuracy", "hinge", steps, "skipped"):
        table.add_column(title, justify="right")
    for epoch in audit.epochs:
        found = [epoch.updates.get(stage) for stage in columns]
        table.add_row(
            str(epoch.epoch),
            f"{epoch.trees:,}",
            share(epoch.success),
            share(epoch.mixed_share),
            value_text(epoch.pair_accuracy),
            value_text(epoch.mean_hinge),
            "/".join(str(stage.updates if stage else 0) for stage in found),
            str(sum(stage.skipped for stage in found if stage)),
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
    console.print("Gates: " + ", ".join(f"[{COLOURS[s]}]{n} {s}[/{COLOURS[s]}]" for s, n in counts.items() if n))
    for gate in audit.gates:
        if gate.status in ("warn", "fail"):
            console.print(f"  [{COLOURS[gate.status]}]{gate.status}[/{COLOURS[gate.status]}] {escape(gate.text)}")
    console.print()


def _comparison(comparison: Comparison, console: Console) -> None:
    for line in comparison_sentences(comparison):
        console.print(escape(line))
    table = Table(box=None, pad_edge=False)
    for title in ("metric", "before", "now", "change", "95 % interval"):
        table.add_column(title, justify="left" if title == "metric" else "right")
    for change in comparison.changes:
        metric = METRICS[change.metric]
        low, high = number(change.low, percent=metric.percent), number(change.high, percent=metric.percent)
        interval = DASH if change.low is None else f"{low.removesuffix(' %')} to {high}"
        cells = (number(x, percent=metric.percent) for x in (change.before, change.now, change.change))
        table.add_row(metric.title, *cells, interval)
    console.print(table)


def _identity(audit: Audit, console: Console) -> None:
    identity = audit.identity
    agents = ", ".join(agents_text(identity.agents)) or "no scored nodes"
    seals = ", ".join(f"{name} {sha[:12]}" for name, sha in identity.seals.items()) or "none"
    console.print(
        f"\n[dim]Measured for {escape(agents)}; rubric prompts {identity.rubric_prompts[:12]}, data"
        f" {identity.snapshot_hash[:12]}. Seals: {seals}. Unsealed shards: {identity.unsealed_shards}.[/dim]"
    )
    console.print(
        f"[dim]Intervals: {audit.reps} Poisson bootstrap replicates over tasks, seed {audit.seed};"
        f" margin {number(audit.margin)}.[/dim]",
    )
