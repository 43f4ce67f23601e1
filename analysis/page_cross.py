"""The page's twelfth section: writers and scorers apart.

Invariant: shows exactly the numbers of a `Crossed`, says what they were measured for, and escapes every name.
Run: ``sera audit STORE --cross cross.yaml --html report.html``
"""

from __future__ import annotations

from html import escape

from analysis.cross import Combination, Crossed
from analysis.markup import section, table
from analysis.wording import DASH, count, number, share

HEAD = ("writer and scorer", "pair accuracy", "95 % interval", "change", "hinge", "bias", "missing")
ABOUT = (
    "Every writer wrote a rubric for each of the same mixed delegations, and every scorer applied every rubric to the"
    " same stored branches. A missing score counts as worst."
)
CONTROLS = (
    "Change: against the first line on the same tasks, with its 95 % interval. 'other' is another delegation's rubric,"
    " 'none' no rubric: a rubric that is no better than these carries nothing, and a scorer that is good with every"
    " rubric does not need one."
)


def crossing(found: Crossed | None) -> str:
    """One row per combination; empty without a crossing."""
    if found is None:
        return ""
    if not found.combinations:
        return section("Is it the writer or the scorer?", ["No mixed delegation to measure on."], "")
    first = found.combinations[0]
    basis = f"{count(first.pairs, 'pair')} of {count(first.tasks, 'task')} in each line."
    rows = [_row(line) for line in found.combinations]
    made = f'<p class="quiet">{escape(_measured_for(found))}</p>\n'
    return section("Is it the writer or the scorer?", [ABOUT, f"{basis} {CONTROLS}"], table(HEAD, rows) + made)


def _row(line: Combination) -> tuple[str, ...]:
    change = number(line.against_first)
    if line.against_low is not None and line.against_low != line.against_high:
        change += f" ({number(line.against_low)} to {number(line.against_high)})"
    span = DASH if line.low is None else f"{share(line.low).removesuffix(' %')} to {share(line.high)}"
    return (
        f"{escape(line.writer)} × {escape(line.scorer)}",
        share(line.pair_accuracy),
        span,
        change,
        number(line.mean_hinge),
        number(line.bias),
        share(line.missing),
    )


def _measured_for(found: Crossed) -> str:
    words = []
    for spec, (_, version, weights) in sorted(found.measured_for.get("policies", {}).items()):
        words.append(f"{spec} version {version}" + (f", weights {weights[:12]}" if weights else ""))
    key = found.measured_for.get("key")
    words += [f"policies, configuration and probes hash to {key[:12]}"] if key else []
    return f"Measured for {'; '.join(words)}." if words else ""
