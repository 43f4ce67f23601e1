"""Numbers in words: formats, interval texts and the sentences that lead the report.

Invariant: pure functions of results; the terminal, the page and the notebook say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analysis.judge_metrics import JUDGE_METRICS
from analysis.metrics import CHECKS, HEADLINES, METRICS
from analysis.results import Agent, Agreement, Comparison, Divergence, Estimate, Items, Slice, WorstSlice

KNOWN = METRICS | CHECKS | JUDGE_METRICS
DASH = "–"
UNITS = {
    "pairs": "pair",
    "groups": "mixed delegation",
    "scores": "scored node",
    "nodes": "node",
    "repeats": "repeated node",
    "votes": "vote",
    "changes": "task change",
    "rubrics": "rubric",
}
MIN_SLICE_PAIRS = 20
ENOUGH_TASKS = 20


def number(value: float | None, *, percent: bool = False) -> str:
    """One number: 71.3 % or 0.184; a dash when undefined."""
    if value is None:
        return DASH
    text = f"{100 * value:.1f} %" if percent else f"{value:.3f}"
    return text.replace("-0.000", "0.000").replace("-0.0 %", "0.0 %").replace("-", "−")


def share(value: float | None) -> str:
    """A share as a percentage."""
    return number(value, percent=True)


def held_out_text(share: float) -> str:
    """Which tasks an audit of held-out tasks speaks of."""
    return f"only the tasks that hold_out {share:g} keeps from training"


def count(n: int, noun: str) -> str:
    """'1 pair', '2,300 pairs'."""
    if n == 1:
        return f"{n:,} {noun}"
    plural = "criteria" if noun == "criterion" else noun[:-1] + "ies" if noun.endswith("ty") else noun + "s"
    return f"{n:,} {plural}"


def value_text(estimate: Estimate) -> str:
    """The estimate alone."""
    return number(estimate.value, percent=KNOWN[estimate.metric].percent)


def interval_text(estimate: Estimate) -> str:
    """'66.1 to 76.0 %', or a dash without an interval."""
    if estimate.low is None or estimate.high is None:
        return DASH
    percent = KNOWN[estimate.metric].percent
    low, high = number(estimate.low, percent=percent), number(estimate.high, percent=percent)
    return f"{low.removesuffix(' %')} to {high}"


def basis_text(estimate: Estimate) -> str:
    """'412 pairs of 37 tasks'."""
    return f"{count(estimate.n, UNITS[estimate.unit])} of {count(estimate.tasks, 'task')}"


def sentence(estimate: Estimate) -> str:
    """One line: title, value, interval, n; or why it is not defined."""
    title = KNOWN[estimate.metric].title
    if estimate.value is None:
        return f"{title}: {estimate.note or 'not defined'}."
    interval = interval_text(estimate)
    spread = f", 95 % interval {interval}" if interval != DASH else ""
    note = f" ({estimate.note})" if estimate.note else ""
    return f"{title} {value_text(estimate)}{spread}, from {basis_text(estimate)}{note}."


def agents_text(agents: Sequence[Agent]) -> list[str]:
    """'writer pocket version 0, 4 (72 rubrics)', one per role and name."""
    merged: dict[tuple[str, str], list[Agent]] = {}
    for agent in agents:
        merged.setdefault((agent.role, agent.name), []).append(agent)
    return [
        f"{role} {name} version {', '.join(str(a.version) for a in parts)}"
        f" ({count(sum(a.n for a in parts), 'rubric' if role == 'writer' else 'score')})"
        for (role, name), parts in merged.items()
    ]


def rater_text(part: Agreement) -> str:
    """'judge qwen3-32b, version 1.43797b76'."""
    return f"{part.kind} {part.source}, version {part.version}"


def agreement_sentence(part: Agreement) -> str:
    """How a judge agrees with the program, beside the base rate; or how often it was asked."""
    name = rater_text(part).capitalize() if part.kind == "human" else rater_text(part).replace("judge", "Judge", 1)
    asked = count(part.votes, "vote")
    failed = f", {part.invalid:,} of them invalid" if part.invalid else ""
    kappa, raw = part.metrics["kappa"], part.metrics["agreement"]
    if raw.value is None:
        return f"{name}: {asked}{failed}; {raw.note}, so its agreement is not known."
    interval = interval_text(kappa)
    spread = f" (95 % interval {interval})" if interval != DASH else ""
    beyond = f"kappa {value_text(kappa)}{spread}" if kappa.value is not None else f"kappa not defined: {kappa.note}"
    repeat = part.metrics["repeat_agreement"]
    again = f"; repeated votes agree in {value_text(repeat)}" if repeat.value is not None else ""
    return (
        f"{name} agrees with the program on {value_text(raw)} of {basis_text(raw)}, {beyond}; it says success in"
        f" {value_text(part.metrics['judge_rate'])}, the program in {value_text(part.metrics['program_rate'])}{again}"
        f" ({asked}{failed})."
    )


def items_sentence(items: Items) -> str:
    """Which criteria carry signal, and which none."""
    if not items.table:
        return "No criterion was scored often enough to say something about it."
    dull = [item.name for item in items.table if item.saturated]
    best = max(items.table, key=lambda item: item.bits or 0)
    most = (
        f"The most telling of {count(len(items.table), 'criterion')} is '{best.name}'"
        f" ({number(best.bits)} bits about success)."
    )
    if not dull:
        return f"{most} All of them vary."
    names = ", ".join(f"'{name}'" for name in dull[:4]) + (" and others" if len(dull) > 4 else "")
    return f"{most} {len(dull)} of them hardly vary or always pass or fail: {names}."


def coverage_sentence(counts: dict[str, int], shares: dict[str, float | None]) -> str:
    """What the pair numbers rest on."""
    if counts["forked"] == 0:
        return f"{count(counts['delegations'], 'delegation')}, none forked into branches, so nothing can be ranked yet."
    return (
        f"{count(counts['forked'], 'delegation')} forked; {counts['mixed']:,} ({share(shares['mixed'])}) mixed success"
        f" and failure and only these can be ranked; {counts['mixed_scored']:,} of them have usable scores on both"
        f" sides, {count(counts['pairs'], 'pair')} in all."
    )


def caution(headline: dict[str, Estimate]) -> str:
    """A warning when the intervals rest on few tasks; empty when they do not."""
    tasks = headline["pair_accuracy"].tasks
    if tasks == 0 or tasks >= ENOUGH_TASKS:
        return ""
    return f"The pairs come from {count(tasks, 'task')}: with fewer than {ENOUGH_TASKS} the intervals are rough."


def divergence_sentence(divergence: Divergence) -> str:
    """Score minus label over the last three epochs: rising, or not."""
    steps = ", ".join(
        f"{number(bias)} in epoch {epoch}" for epoch, bias in zip(divergence.epochs, divergence.biases, strict=True)
    )
    spread = (
        ""
        if divergence.low is None or divergence.high is None
        else f" (95 % interval {number(divergence.low)} to {number(divergence.high)})"
    )
    if divergence.rising:
        return (
            f"Scores run away from labels: score minus label is {steps}, a rise of {number(divergence.rise)}{spread}."
        )
    return f"Score minus label: {steps}; no sure rise over two epochs, change {number(divergence.rise)}{spread}."


def comparison_sentences(comparison: Comparison) -> list[str]:
    """Whether an older audit still holds for this store, and what is different."""
    if comparison.matches:
        return [f"Against {comparison.against}: measured for the same data, writers, scorers and prompts."]
    return [
        f"Against {comparison.against}: measured for something else, so its numbers do not hold here:",
        *(f"  {difference}" for difference in comparison.differences),
    ]


def slice_text(part: str, level: str) -> str:
    """'depth 2', 'length tenth 10 (longest)'."""
    if part != "length":
        return f"{part} {level}"
    return f"length tenth {level}" + {"1": " (shortest)", "10": " (longest)"}.get(level, "")


def worst_slice(slices: Sequence[Slice], *, min_pairs: int = MIN_SLICE_PAIRS) -> WorstSlice:
    """The slice with the lowest pair accuracy, where depth, difficulty or epoch has two levels with enough pairs."""
    enough = [part for part in slices if part.slice not in ("all", "worst") and part.pairs >= min_pairs]
    levels = Counter(part.slice for part in enough)
    compared = [(part, part.metrics["pair_accuracy"].value or 0.0) for part in enough if levels[part.slice] > 1]
    if not compared:
        return WorstSlice(
            text=f"No worst slice: no depth, difficulty, epoch, world or length has two levels with {min_pairs} pairs."
        )
    if max(value for _, value in compared) - min(value for _, value in compared) < 1e-9:
        return WorstSlice(text=f"No worst slice: all {len(compared)} slices rank equally well.")
    worst, _ = min(compared, key=lambda pair: (pair[1], pair[0].slice, pair[0].level))
    estimate = worst.metrics["pair_accuracy"]
    interval = interval_text(estimate)
    spread = f", 95 % interval {interval}" if interval != DASH else ""
    text = (
        f"Worst slice: {slice_text(worst.slice, worst.level)}, where {value_text(estimate)} of"
        f" {count(estimate.n, 'pair')} are ranked right ({count(estimate.tasks, 'task')}{spread})."
    )
    return WorstSlice(slice=worst.slice, level=worst.level, text=text)


def verdict(headline: dict[str, Estimate]) -> str:
    """One sentence on whether scores mean anything, from the interval of pair accuracy."""
    ranking = headline["pair_accuracy"]
    if ranking.value is None:
        return (ranking.note or "nothing to rank yet").capitalize() + "."
    if ranking.low is None or ranking.high is None:
        return f"Rubric scores rank {value_text(ranking)} of pairs right; one task cannot say how sure that is."
    if ranking.low > 0.5:
        return "Rubric scores rank success above failure better than guessing."
    if ranking.high < 0.5:
        return "Rubric scores rank failure above success: worse than guessing."
    return "Rubric scores cannot be told from guessing: the interval of pair accuracy contains 50 %."


def summary(
    headline: dict[str, Estimate], counts: dict[str, int], shares: dict[str, float | None], worst: WorstSlice
) -> list[str]:
    """The lines that lead every form of the report."""
    lines = [
        verdict(headline),
        *(sentence(headline[name]) for name in HEADLINES if headline[name].value is not None),
        coverage_sentence(counts, shares),
        caution(headline),
        worst.text,
    ]
    return [line for line in lines if line]
