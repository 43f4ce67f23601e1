"""The page's overview of the eleven sections, and those that have no other place: criteria, drift, leaks, comparison.

Invariant: every headline is shown over usable scores and with unusable ones counted as worst; store texts are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from analysis.markup import section, table, tag
from analysis.metrics import CHECKS, METRICS
from analysis.results import Audit, Change, Comparison, Estimate, Gate, SectionResult
from analysis.wording import (
    DASH,
    KNOWN,
    UNITS,
    comparison_sentences,
    count,
    divergence_sentence,
    interval_text,
    items_sentence,
    number,
    share,
    value_text,
)

WORST_WORDS = "Worst: the same with every node that lacks a usable score counted as the worst score it could have had."


LIFT = (
    "Lift: success rate where a criterion passes minus where it does not. Saturated: it passes in more than 95 % or"
    " less than 5 % of nodes, or never varies, so it cannot tell anybody apart."
)


def overview(audit: Audit) -> str:
    """One row per section: its question, its gates' verdict, its headline twice."""
    head = ("question and headline", "verdict", "value", "95 % interval", "worst", "n")
    rows = [_row(part, audit) for part in audit.sections]
    unusable = audit.coverage["unusable_scores"]
    words = [f"{count(unusable, 'node')} had no usable score. {WORST_WORDS}" if unusable else WORST_WORDS]
    return section("Eleven questions", words, f'<div class="asked">{table(head, rows)}</div>')


def _row(part: SectionResult, audit: Audit) -> tuple[str, ...]:
    verdict = tag(part.status, part.status)
    if part.headline is None:
        lead, title, value, n = {
            "coverage": ("coverage.mixed", "mixed delegations", share(audit.shares["mixed"]), audit.coverage["forked"]),
            "slices": ("pair_accuracy", "worst pair accuracy", _worst(audit), len(audit.slices)),
            "items": ("items.saturated", "saturated criteria", share(audit.items.saturated), len(audit.items.table)),
        }[part.key]
        return (_asked(part, title, _beside(part, audit, lead)), verdict, value, DASH, DASH, f"{n:,}")
    estimate = part.headline
    worst = DASH if part.worst is None else value_text(part.worst)
    name = _asked(part, KNOWN[estimate.metric].title, _beside(part, audit, estimate.metric))
    return (name, verdict, value_text(estimate), interval_text(estimate), worst, f"{estimate.n:,}")


def _asked(part: SectionResult, title: str, beside: str = "") -> str:
    words = escape(f"{title}; {beside}" if beside else title)
    return f'{part.number}. {escape(part.question)}<br><span class="quiet">{words}</span>'


def _beside(part: SectionResult, audit: Audit, lead: str) -> str:
    """The gate behind a verdict that the headline does not explain, in words; empty otherwise."""
    found = [gate for gate in audit.gates if gate.section == part.key and gate.status == part.status]
    if part.status not in ("warn", "fail") or any(gate.metric == lead for gate in found):
        return ""
    return f"{part.status}: {found[0].text}"


def _worst(audit: Audit) -> str:
    where = (audit.worst_slice.slice, audit.worst_slice.level)
    found = [part for part in audit.slices if (part.slice, part.level) == where]
    return value_text(found[0].metrics["pair_accuracy"]) if found else DASH


def drift(audit: Audit) -> str:
    """The same tasks from one epoch to the next; empty with one epoch."""
    if not audit.drift and audit.divergence is None:
        return ""
    words = ["When scores rise on the same tasks and success does not follow, the rubric is being gamed."]
    if audit.divergence is not None:
        words.append(divergence_sentence(audit.divergence))
    rows = [
        (escape(step.step), *(_with_interval(e) for e in (step.drift, step.score_change, step.success_change)),
         f"{step.drift.n:,}")
        for step in audit.drift
    ]  # fmt: skip
    content = table(("epochs", "drift", "change of score", "change of success", "tasks"), rows) if rows else ""
    if audit.recalibration:
        maps = [
            (
                f"{row.epoch} to {row.next_epoch}",
                number(row.brier),
                number(row.brier_mapped),
                _span(row.gain, row.low, row.high),
                f"{row.n:,}",
            )
            for row in audit.recalibration
        ]
        head = ("epochs", "Brier as scored", "mapped by the epoch before", "gain", "nodes")
        content += table(head, maps)
        words.append(
            "A gain above 0 says that the map from score to success rate of one epoch still holds in the next, so a"
            " recalibration would help."
        )
    return section("Is it getting better, or hacked?", words, content)


def criteria(audit: Audit) -> str:
    """Which criteria carry signal; empty when none was scored often enough."""
    items = audit.items
    if not items.table:
        return ""
    rows = [
        (
            escape(item.name) + (f" {tag('warn', 'saturated')}" if item.saturated else ""),
            number(item.mean_score),
            share(item.pass_rate),
            _span(item.phi, item.phi_low, item.phi_high),
            number(item.lift),
            number(item.bits),
            f"{item.n:,}",
        )
        for item in items.table
    ]
    head = ("criterion", "mean", "passes", "correlation with success", "lift", "bits", "n")
    content = table(head, rows) + _places(audit)
    words = [
        items_sentence(items),
        LIFT,
    ]
    if items.redundant:
        pair = items.redundant[0]
        words.append(
            f"Closest pair: '{pair['name']}' and '{pair['other']}' say nearly the same (correlation"
            f" {number(pair['phi'])} over {pair['n']:,} nodes)."
        )
    return section("Which criteria carry signal?", words, content)


def _places(audit: Audit) -> str:
    rows = [
        (str(row["position"]), number(row["mean_score"]), number(row["phi"]), f"{row['n']:,}")
        for row in audit.items.positions
    ]
    body = table(("place in the rubric", "mean", "correlation with success", "n"), rows)
    return f"<details><summary>By place in the rubric</summary>{body}</details>" if rows else ""


def cheating(audit: Audit) -> str:
    """Signs that scores are made of something other than the work."""
    rows = [_check(audit.checks[name]) for name in CHECKS if CHECKS[name].unit == "scores"]
    texts = audit.texts
    said = (
        f"{texts.revealing:,} of {count(texts.rubrics, 'rubric')} name what they must not know"
        f" ({texts.with_words:,} words of an answer key{': ' + texts.words if texts.words else ''};"
        f" {texts.with_ids:,} ids of the task)."
    )
    words = (
        [said, f"{texts.distinct_texts:,} of them are distinct texts."] if texts.rubrics else ["No valid rubric yet."]
    )
    return section(
        "Are scores made of the work alone?",
        words,
        table(("sign", "value", "95 % interval", "n", "meaning"), rows, words=4),
    )


def _check(estimate: Estimate) -> tuple[str, ...]:
    metric = CHECKS[estimate.metric]
    about = metric.about if estimate.value is not None else f"Not defined: {estimate.note}."
    n = count(estimate.n, UNITS[estimate.unit])
    return (escape(metric.title), value_text(estimate), interval_text(estimate), n, escape(about))


def comparison(found: Comparison | None) -> str:
    """This audit against an older one; empty without."""
    if found is None:
        return ""
    rows = [_change(change) for change in found.changes]
    head = ("metric", "before", "now", "change", "95 % interval")
    return section("What changed?", comparison_sentences(found), table(head, rows))


def _change(change: Change) -> tuple[str, ...]:
    metric = METRICS[change.metric]
    cells = (number(x, percent=metric.percent) for x in (change.before, change.now, change.change))
    low, high = number(change.low, percent=metric.percent), number(change.high, percent=metric.percent)
    return (metric.title, *cells, DASH if change.low is None else f"{low.removesuffix(' %')} to {high}")


def gates(found: Sequence[Gate]) -> str:
    """All gates, the failed ones first; those that had too little to judge folded away."""
    order = ("fail", "warn", "pass", "too few")
    judged = sorted((g for g in found if g.status != "too few"), key=lambda gate: order.index(gate.status))
    waiting = [gate for gate in found if gate.status == "too few"]
    few = f"{count(len(waiting), 'gate')} with too few observations"
    folded = f"<details><summary>{few}</summary>{_gates(waiting)}</details>" if waiting else ""
    return f'<div class="card"><h3>Gates</h3>{_gates(judged)}{folded}</div>'


def _gates(found: Sequence[Gate]) -> str:
    items = "".join(f"<li>{tag(gate.status, gate.status)}<span>{escape(gate.text)}</span></li>" for gate in found)
    return f'<ul class="gates">{items}</ul>'


def _with_interval(estimate: Estimate) -> str:
    interval = interval_text(estimate)
    return value_text(estimate) + (f" ({interval})" if interval != DASH else "")


def _span(value: float | None, low: float | None, high: float | None) -> str:
    spread = "" if low is None or high is None else f" ({number(low)} to {number(high)})"
    return number(value) + spread
