"""What the audit shows beside its estimates: criteria, rubric texts, drift, and the verdict of each section.

Invariant: numbers come out of SQL files; a section's status is the worst of its gates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis import measure, wording
from analysis.query import counted, rows
from analysis.results import (
    Agreement,
    Check,
    Divergence,
    DriftStep,
    Estimate,
    Gate,
    Item,
    Items,
    Recalibration,
    SectionResult,
    Slice,
    Status,
    Texts,
)
from analysis.sections import SECTIONS, Section

if TYPE_CHECKING:
    import duckdb

BASIS = {  # the count that a coverage share is a share of
    "complete": "forked",
    "mixed": "forked",
    "mixed_scored": "mixed",
    "labelled": "child_nodes_ran",
    "audited": "child_nodes_ran",
    "rubrics_valid": "rubrics_written",
    "rubrics_distinct": "rubrics_valid",
    "scores_valid": "scores_written",
    "trees_infra": "trees",
}
ORDER: tuple[Status, ...] = ("fail", "warn", "pass", "too few")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What gates are judged on. shares: 'room.name' -> (value, n) of shares that are exact counts."""

    slices: Sequence[Slice]
    checks: dict[str, Estimate]
    shares: dict[str, tuple[float | None, int]]
    integrity: Sequence[Check]
    agreement: Sequence[Agreement]


def shares(
    counts: Mapping[str, int], of: Mapping[str, float | None], items: Items, texts: Texts
) -> dict[str, tuple[float | None, int]]:
    """Exact shares by 'room.name', each with the count that it is a share of."""
    return {
        **{f"coverage.{name}": (of[name], counts[basis]) for name, basis in BASIS.items()},
        "items.saturated": (items.saturated, len(items.table)),
        "rubrics.revealing": (texts.revealing / texts.rubrics if texts.rubrics else None, texts.rubrics),
    }


def items(con: duckdb.DuckDBPyConnection) -> Items:
    """The rubric criteria that were scored often enough to say something about each."""
    share = rows(con, "items_share")[0]
    return Items(
        saturated=share["saturated"],
        table=[Item(**row) for row in rows(con, "items")],
        positions=rows(con, "item_positions", fewest=measure.FEWEST_ITEM_SCORES),
        redundant=rows(con, "item_redundancy", fewest=measure.FEWEST_ITEM_SCORES),
    )


def texts(con: duckdb.DuckDBPyConnection) -> Texts:
    """Rubric texts that name what they must not know."""
    return Texts(**counted(con, "rubric_texts")[0])


def drift(con: duckdb.DuckDBPyConnection) -> list[DriftStep]:
    """Score and success of the same tasks from each epoch to the next."""
    return [
        DriftStep(step=step, drift=both, score_change=score, success_change=success)
        for step, both, score, success in measure.drift_steps(con)
    ]


def recalibration(con: duckdb.DuckDBPyConnection) -> list[Recalibration]:
    """Does the map from score to success rate of one epoch help in the next?"""
    return [Recalibration(**row) for row in rows(con, "recalibration") if row["gain"] is not None]


def divergence(con: duckdb.DuckDBPyConnection) -> Divergence | None:
    """Score minus label over the last three epochs; None with fewer."""
    found = rows(con, "divergence")
    return Divergence(**found[0]) if found and found[0]["rise"] is not None else None


def sections(parts: Mapping[str, Any]) -> list[SectionResult]:
    """The eleven sections; `parts` are the fields of an `Audit` without them."""
    known = {**parts["headline"], **parts["checks"]}
    return [
        SectionResult(
            number=section.number,
            key=section.key,
            title=section.title,
            question=section.question,
            status=_status([gate for gate in parts["gates"] if gate.section == section.key]),
            headline=known.get(section.lead or ""),
            worst=parts["worst"].get(section.lead or ""),
            text=_text(section, parts, known.get(section.lead or "")),
        )
        for section in SECTIONS
    ]


def _status(gates: Sequence[Gate]) -> Status:
    return min((gate.status for gate in gates), key=ORDER.index, default="too few")


def _text(section: Section, parts: Mapping[str, Any], headline: Estimate | None) -> str:
    if section.key == "coverage":
        faults = sum(check.found for check in parts["integrity"])
        sound = "no fault in the rows" if not faults else f"{wording.count(faults, 'fault')} in the rows"
        return f"{wording.coverage_sentence(parts['coverage'], parts['shares'])} There is {sound}."
    if section.key == "slices":
        return str(parts["worst_slice"].text)
    if section.key == "items":
        return wording.items_sentence(parts["items"])
    assert headline is not None
    return wording.sentence(headline)
