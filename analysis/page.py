"""The audit as one self-contained HTML file.

Invariant: the file loads nothing from anywhere (charts are inline SVG, no script, no font, no address), shows exactly
the numbers of the `Audit`, and escapes every text that came out of the store.
Run: ``sera audit STORE --html report.html``
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from analysis import charts, page_cross, page_evidence, page_judges, page_sections, page_tables
from analysis.cross import Crossed
from analysis.markup import section
from analysis.metrics import HEADLINES, METRICS
from analysis.results import Audit, Estimate
from analysis.wording import (
    DASH,
    basis_text,
    caution,
    count,
    coverage_sentence,
    held_out_text,
    interval_text,
    number,
    share,
    value_text,
    verdict,
)
from sera_data.output import write_output

ABOUT = (
    "A rubric is written before a child agent starts and applied to the finished child; a program says who really"
    " succeeded. This page compares the two."
)


def write_page(audit: Audit, path: Path, *, crossed: Crossed | None = None) -> None:
    """Write the page; a reader never sees half of it."""
    write_output(path, page(audit, crossed=crossed))


def page(audit: Audit, *, crossed: Crossed | None = None) -> str:
    """The whole page, with the twelfth section where writers and scorers were crossed."""
    style = (files("analysis") / "page.css").read_text(encoding="utf-8")
    figures = charts.figures(audit)
    learned = page_tables.learning(audit.epochs)
    parts = [
        _head(audit),
        page_sections.overview(audit),
        page_sections.comparison(audit.comparison),
        section("Does the rubric rank right?", [_ranking_words(audit)], _figures(figures, "ranking")),
        page_tables.slices(audit.slices),
        section("Do scores mean what they say?", [_calibration_words(audit)], _figures(figures, "calibration")),
        page_tables.reliability(audit),
        section("What was learned?", [_learning_words(audit)], _figures(figures, "learning", size="small") + learned),
        page_sections.drift(audit),
        page_sections.criteria(audit),
        page_sections.cheating(audit),
        page_evidence.coverage(audit),
        page_evidence.trust(audit),
        page_judges.judges(audit.agreement),
        page_cross.crossing(crossed),
        section("Every metric", [_interval_words(audit)], page_tables.metrics(audit)),
    ]
    body = "<main>\n" + "\n".join(parts) + "\n</main>\n" + page_evidence.identity(audit)
    body = body.replace(" %", "\u00a0%")  # a number and its sign stay on one line
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="sera-audit" content="{_measured_for(audit)}">\n'
        f"<title>Rubric audit: {escape(Path(audit.identity.path).name)}</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _measured_for(audit: Audit) -> str:
    """What a later audit needs to say whether this page still holds: identity and headline values, as JSON."""
    values = {name: estimate.value for name, estimate in audit.headline.items()}
    return escape(json.dumps({"identity": audit.identity.model_dump(mode="json"), "headline": values}, sort_keys=True))


def _head(audit: Audit) -> str:
    tiles = "".join(_tile(audit.headline[name]) for name in HEADLINES) + _coverage_tile(audit)
    return (
        f'<p class="kicker">Rubric audit of {escape(audit.identity.path)}{_scope(audit)}</p>\n'
        f"<h1>{escape(verdict(audit.headline))}</h1>\n"
        f'<p class="quiet">{escape(ABOUT)}</p>\n'
        f'<div class="tiles">{tiles}</div>\n'
        f'<p class="lead">{escape(audit.worst_slice.text)}</p>\n'
        f'<p class="quiet">{escape(coverage_sentence(audit.coverage, audit.shares))} {caution(audit.headline)}</p>'
    )


def _scope(audit: Audit) -> str:
    identity = audit.identity
    tasks = f", {held_out_text(identity.held_out)}" if identity.held_out is not None else ""
    if identity.snapshot is not None:
        return f", snapshot {escape(identity.snapshot)}{tasks}"
    if identity.epochs is not None:
        return f", epoch {', '.join(map(str, identity.epochs))} only{tasks}"
    return (", sealed directories only" if identity.view == "sealed" else "") + tasks


def _tile(estimate: Estimate) -> str:
    name = METRICS[estimate.metric].title
    if estimate.value is None:
        return _tile_text(name, DASH, "not defined", _capital(estimate.note))
    interval = interval_text(estimate)
    below = basis_text(estimate) + (f"; {estimate.note}" if estimate.note else "")
    if interval == DASH:
        return _tile_text(name, value_text(estimate), "no interval", below)
    return _tile_text(name, value_text(estimate), interval, f"95 % interval, {below}")


def _coverage_tile(audit: Audit) -> str:
    counts = audit.coverage
    basis = f"{counts['mixed']:,} of {counts['forked']:,} forked"
    return _tile_text("Mixed delegations", share(audit.shares["mixed"]), basis, "only these can be ranked")


def _tile_text(name: str, value: str, second: str, third: str) -> str:
    return (
        f'<div class="tile"><div class="name">{escape(name)}</div>'
        f'<div class="value{" none" if value == DASH else ""}">{value}</div>'
        f'<div class="range">{escape(second)}</div><div class="basis">{escape(third)}</div></div>'
    )


def _figures(figures: Sequence[charts.Figure], part: str, *, size: str = "") -> str:
    drawn = [
        f'<figure class="card" id="{f.name}"><h3>{escape(f.title)}</h3><figcaption>{escape(f.about)}</figcaption>'
        f"{charts.svg(f.chart, name=f.name, label=f.title)}</figure>"
        for f in figures
        if f.section == part
    ]
    return f'<div class="grid {size}">{"".join(drawn)}</div>\n' if drawn else ""


def _ranking_words(audit: Audit) -> str:
    accuracy, hinge, ties = (audit.headline[name] for name in ("pair_accuracy", "mean_hinge", "tie_rate"))
    if accuracy.value is None:
        return f"{_capital(accuracy.note)}. Fork delegations whose tasks are neither trivial nor hopeless."
    return (
        f"In {value_text(accuracy)} of {count(accuracy.n, 'pair')} the branch that succeeded got the higher score"
        f" (a tie counts half; {value_text(ties)} are ties). The mean hinge, which rubric training lowers, is"
        f" {value_text(hinge)}; a rubric that gives everybody the same score pays {number(audit.margin)}."
    )


def _calibration_words(audit: Audit) -> str:
    error, bias = audit.headline["calibration_error"], audit.headline["bias"]
    if bias.value is None:
        return f"{_capital(bias.note)}."
    words = f"The mean score minus the success rate is {value_text(bias)}"
    if bias.low is not None and bias.high is not None:
        words += f" (95 % interval {interval_text(bias)}): "
        if bias.low <= 0 <= bias.high:
            words += "neither clearly generous nor clearly strict"
        else:
            words += "too generous" if bias.value > 0 else "too strict"
    if error.value is None:
        return f"{words}."
    return f"{words}. A score is typically {value_text(error)} away from the success rate at that score."


def _learning_words(audit: Audit) -> str:
    if not audit.epochs:
        return "No trees and no updates yet."
    if not any(epoch.updates for epoch in audit.epochs):
        return "Success of whole trees by epoch. No learn phase has written updates yet."
    return "Success of whole trees by epoch, and the optimizer steps taken on each epoch's data, by stage."


def _interval_words(audit: Audit) -> str:
    if audit.reps == 0:
        return "Intervals were left out (0 replicates)."
    return (
        f"Intervals are the middle 95 % of {audit.reps:,} bootstrap replicates over tasks (Poisson weights, seed"
        f" {audit.seed}), because nodes of one task are alike."
    )


def _capital(note: str | None) -> str:
    text = note or "not defined"
    return text[0].upper() + text[1:]
