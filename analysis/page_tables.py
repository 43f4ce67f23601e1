"""The tables of the page: slices, reliability, learning, every metric.

Invariant: each row states its n; an undefined number is a dash with its reason beside it or in the section's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from analysis.learning import stages
from analysis.markup import table
from analysis.metrics import METRICS, SECTIONS
from analysis.results import Audit, Epoch, Estimate, Slice
from analysis.wording import DASH, UNITS, count, interval_text, number, share, slice_text, value_text


def slices(parts: Sequence[Slice]) -> str:
    """Pair accuracy and the other headlines by depth, difficulty and epoch."""
    if not parts:
        return ""
    head = ("slice", "pair accuracy", "95 % interval", "hinge", "bias", "calibration error", "pairs", "tasks", "nodes")
    body = table(head, [_slice(part) for part in parts if part.slice != "length"])
    long = table(head, [_slice(part) for part in parts if part.slice == "length"])
    return f"{body}<details><summary>By length of the branches, in tenths of delegations</summary>{long}</details>"


def _slice(part: Slice) -> tuple[str, ...]:
    accuracy = part.metrics["pair_accuracy"]
    return (
        escape(slice_text(part.slice, part.level)),
        value_text(accuracy),
        interval_text(accuracy),
        *(value_text(part.metrics[name]) for name in ("mean_hinge", "bias", "calibration_error")),
        f"{part.pairs:,}",
        f"{part.pair_tasks:,}",
        f"{part.scores:,}",
    )


def reliability(audit: Audit) -> str:
    """Success rate per score, folded away below the chart."""
    if not audit.reliability:
        return ""
    rows = [
        (
            number(row.score),
            share(row.success_rate),
            DASH if row.low is None or row.high is None else f"{100 * row.low:.1f} to {share(row.high)}",
            number(row.score - row.success_rate),
            f"{row.n:,}",
        )
        for row in audit.reliability
    ]
    body = table(("score", "success rate", "95 % interval", "score − rate", "nodes"), rows)
    return f"<details><summary>Reliability table, {escape(audit.reliability_rule)}</summary>{body}</details>"


def learning(epochs: Sequence[Epoch]) -> str:
    """One row per epoch: success, mixed share, pair accuracy, hinge, updates per stage."""
    if not epochs:
        return ""
    columns = stages(epochs)
    head = (
        "epoch",
        "trees",
        "success",
        "mixed",
        "pair accuracy",
        "hinge",
        *(f"{s} updates" for s in columns),
        "skipped",
    )
    return table(head, [_epoch(epoch, columns) for epoch in epochs])


def _epoch(epoch: Epoch, columns: Sequence[str]) -> tuple[str, ...]:
    found = [epoch.updates.get(stage) for stage in columns]
    return (
        str(epoch.epoch),
        f"{epoch.trees:,}",
        share(epoch.success),
        share(epoch.mixed_share),
        value_text(epoch.pair_accuracy),
        value_text(epoch.mean_hinge),
        *(str(stage.updates if stage else 0) for stage in found),
        str(sum(stage.skipped for stage in found if stage)),
    )


def metrics(audit: Audit) -> str:
    """Every metric over everything, by section."""
    rows: list[Sequence[str]] = []
    for section, names in SECTIONS.items():
        rows.append((section,))
        rows.extend(_metric(audit.headline[name]) for name in names)
    return table(("metric", "value", "95 % interval", "n", "how to read it"), rows, words=4)


def _metric(estimate: Estimate) -> tuple[str, ...]:
    metric = METRICS[estimate.metric]
    about = metric.about if estimate.value is not None else f"Not defined: {estimate.note}."
    n = count(estimate.n, UNITS[estimate.unit])
    return (escape(metric.title), value_text(estimate), interval_text(estimate), n, escape(about))
