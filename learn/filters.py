"""Filters: which sampled turns are trained, by their age and by how they ended.

Invariant: like a where file they choose among rows that are paid already, so they change what is trained and never what
is paid; the settings and the version that age is counted from decide it alone. Filters that leave nothing are refused.

Run: ``sera learn ... --set filter.max_gap=4 --set filter.finish_reasons=[stop]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from learn.config import LearnConfig
from learn.registered import query
from schemas.words import Stage
from sera_data.canonical import sha256_json
from sera_data.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Filters:
    """What is let through. max_gap: most updates between a turn's sampling and version `start`; None: any."""

    start: int
    max_gap: int | None
    finish_reasons: tuple[str, ...]

    def __str__(self) -> str:
        parts = [] if self.max_gap is None else [f"filter.max_gap={self.max_gap}"]
        parts += [f"filter.finish_reasons=[{', '.join(self.finish_reasons)}]"] if self.finish_reasons else []
        return " and ".join(parts)


def filters_of(config: LearnConfig, start: int) -> Filters | None:
    """The filters of a phase that starts at version `start`, or None where everything is let through."""
    found = Filters(start, config.filter.max_gap, config.filter.finish_reasons)
    return found if str(found) else None


def filters_sha256(config: LearnConfig, start: int) -> str | None:
    """Hash of all filters, that by effective sample size as well, for the snapshot; None where all are off."""
    body = config.filter.model_dump(mode="json")
    if filters_of(config, start) is None and not config.filter.min_ess:
        return None
    return sha256_json({**body, "start": start})


def apply_filters(own: duckdb.DuckDBPyConnection, filters: Filters) -> None:
    """Take from `selected` in `credited` what the filters do not let through."""
    limit = filters.max_gap if filters.max_gap is not None else 2**31 - 1
    params = {"start": filters.start, "max_gap": limit, "reasons": list(filters.finish_reasons)}
    own.execute(query("filter_apply"), params)


def require_something(own: duckdb.DuckDBPyConnection, filters: Filters, stages: Sequence[Stage]) -> None:
    """ConfigError with what the trainable turns are, when none of these stages' rows gets through."""
    params = {"start": filters.start, "stages": list(stages)}
    rows = own.execute(query("filter_found"), params).fetchall()
    if not rows or any(passed for *_, passed in rows):
        return
    gaps = sorted({gap for gap, *_ in rows})
    ends = sorted({end for _, end, _, _ in rows})
    turns = sum(count for _, _, count, _ in rows)
    msg = (
        f"{filters} leaves nothing to train: the {turns} credited turns of {', '.join(stages)} were sampled"
        f" {gaps[0]} to {gaps[-1]} updates before version {filters.start} and ended by {', '.join(ends)}"
    )
    raise ConfigError(msg, hint="widen the filter, collect anew, or take loss.kind=topr or m2po for old data")
