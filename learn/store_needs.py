"""Does a store hold what a method needs? Asked before any credit, so that nothing is trained under a wrong name.

Invariant: reads only; a need that the store contradicts is a StoreError with what the store has, what the method needs
and the settings with which to collect it. What the store cannot contradict (no child at all) is not refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

from learn.collect_needs import flags
from learn.registered import query
from learn.rule import Method
from sera_data.errors import StoreError


def require_collected(connection: duckdb.DuckDBPyConnection, method: Method) -> None:
    """StoreError when the connection's rows were collected in another way than the method needs."""
    needs = method.needs
    if needs == type(needs)():
        return
    relation = connection.sql(query("collected"), params={"purposes": ",".join(needs.rubrics)})
    (row,) = relation.fetchall()
    fault = _fault(method, dict(zip(relation.columns, row, strict=True)))
    if fault:
        msg = f"method {method.name!r} {fault}"
        raise StoreError(msg, hint=f"collect with {flags(needs)}")


def _fault(method: Method, found: dict[str, Any]) -> str | None:
    needs = method.needs
    if needs.agents == "single" and (found["deepest"] or 0) > 0:
        return f"learns from agents that never delegate, the store has agents of depth {found['deepest']}"
    if needs.k is not None and found["smallest_fork"] is not None and found["smallest_fork"] < needs.k:
        return f"reads {needs.k} branches of a fork, the store has forks of {found['smallest_fork']}"
    if needs.rubrics and found["n_children"] and not found["n_rubrics"]:
        return (
            f"needs rubrics in {' and '.join(needs.rubrics)} groups; the store has {found['n_children']} children"
            " there and no rubric"
        )
    live = found["live_scorer_version"]
    coldest = found["coldest_score"]
    if needs.scorer_temperature is not None and coldest is not None and coldest != needs.scorer_temperature:
        wanted = f"{needs.scorer_temperature:g}"
        return f"trains scores sampled at temperature {wanted}, the store has some of temperature {coldest:g}"
    actors = ", ".join(found["actors"] or ())
    writers, scorers = (
        _Parties(found[f"own_{role}"] or [], found[f"other_{role}"] or []) for role in ("writers", "scorers")
    )
    return _writer_fault(method, actors, writers) or _scorer_fault(method, actors, scorers, live)


@dataclass(frozen=True, slots=True)
class _Parties:
    """Who wrote or scored: the acting policy itself, and others."""

    own: list[str]
    other: list[str]

    def __str__(self) -> str:
        return f"the store's are by {', '.join(sorted([*self.own, *self.other]))}"


def _writer_fault(method: Method, actors: str, writers: _Parties) -> str | None:
    wanted = method.needs.writer
    if not (writers.own or writers.other) or wanted == "any":
        return None
    if wanted in ("global", "direct") and (writers.own or writers.other != [wanted]):
        return f"needs {'one fixed rubric' if wanted == 'global' else 'scores without a rubric'}, {writers}"
    if wanted == "external" and (writers.own or {"global", "direct"} & {*writers.other}):
        return f"needs rubrics by another policy than the acting {actors}, {writers}"
    if wanted == "policy" and writers.other:
        return f"needs rubrics by the acting policy {actors}, {writers}"
    return None


def _scorer_fault(method: Method, actors: str, scorers: _Parties, live: int | None) -> str | None:
    wanted = method.needs.scorer
    if not (scorers.own or scorers.other) or wanted == "any":
        return None
    if wanted == "external" and scorers.own:
        return f"needs scores by another policy than the acting {actors}, {scorers}"
    if wanted == "policy" and live is None:
        return f"needs scores by the acting policy {actors} at its version, {scorers}"
    if wanted == "frozen" and live:
        return f"needs scores by the start policy, the store's are by the acting policy of version {live}"
    return None
