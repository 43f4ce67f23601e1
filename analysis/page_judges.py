"""The page's section on judges: does a judge agree with the program, and with itself?

Invariant: absent when the store holds no labels of a judge or of people; every text from the store is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from analysis.judge_metrics import JUDGE_METRICS
from analysis.markup import section, table
from analysis.results import Agreement, Estimate
from analysis.wording import DASH, UNITS, agreement_sentence, count, interval_text, rater_text, value_text

COLUMNS = ("kappa", "agreement", "program_rate", "judge_rate", "sensitivity", "specificity", "repeat_agreement")
TITLE = "Does the judge agree with the program?"


def judges(parts: Sequence[Agreement]) -> str:
    """One sentence and one table of metrics per judge, then all of them by slice; empty without a judge."""
    whole = [part for part in parts if part.slice == "all"]
    if not whole:
        return ""
    rows: list[Sequence[str]] = []
    for part in whole:
        rows.append((escape(rater_text(part)),))
        rows.extend(_metric(part.metrics[name]) for name in JUDGE_METRICS)
    head = ("metric", "value", "95 % interval", "n", "how to read it")
    content = table(head, rows, words=4) + _slices([part for part in parts if part.slice != "all"])
    return section(TITLE, [agreement_sentence(part) for part in whole], content)


def _metric(estimate: Estimate) -> tuple[str, ...]:
    metric = JUDGE_METRICS[estimate.metric]
    about = metric.about if estimate.value is not None else f"Not defined: {estimate.note}."
    n = count(estimate.n, UNITS[estimate.unit])
    return (escape(metric.title), value_text(estimate), interval_text(estimate), n, escape(about))


def _slices(parts: Sequence[Agreement]) -> str:
    if not parts:
        return ""
    head = ("judge", "slice", *(JUDGE_METRICS[name].title for name in COLUMNS), "nodes", "invalid votes")
    rows = [
        (
            escape(part.source),
            escape(f"{part.slice} {part.level}"),
            *(value_text(part.metrics[name]) for name in COLUMNS),
            f"{part.nodes:,}",
            f"{part.invalid:,} of {part.votes:,}" if part.invalid else DASH,
        )
        for part in parts
    ]
    return f"<details><summary>Judges by depth, difficulty and epoch</summary>{table(head, rows)}</details>"
