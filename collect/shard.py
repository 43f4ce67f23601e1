"""One unit as one shard: the rows of its trees, the `runs` row, the commit.

Invariant: rows are in planned order, a task is stored once per unit, and a unit that lost too many trees to
infrastructure is never committed, so that the same command can play it again when the fault is mended.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from collect.dealing import WorkUnit
from collect.provenance import code_version, hardware
from collect.services import TreeResult
from schemas import SCHEMA_VERSION
from schemas.words import ShardPhase
from sera_data import ShardWriter
from sera_data.canonical import canonical_json
from sera_data.config import Config
from sera_data.errors import SeraError
from sera_data.plan import Plan
from sera_data.store import Store


class InfrastructureError(SeraError):
    """Too many trees were lost to infrastructure faults."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """What the `runs` rows of a process say."""

    identity: Config
    phase: ShardPhase
    policies: Sequence[Mapping[str, Any]]
    started_at: datetime


def commit_unit(
    store: Store,
    plan: Plan,
    unit: WorkUnit,
    results: Sequence[TreeResult],
    *,
    provenance: Provenance,
    extra: Mapping[str, list[dict[str, Any]]],
    infra_error_limit: float,
) -> None:
    """Write and commit all rows of a unit; a unit that is already committed is left as it is."""
    check_infrastructure(unit, results, limit=infra_error_limit)
    with ShardWriter(store, plan, unit.unit_id) as writer:
        writer.add("runs", runs_row(provenance))
        for table, rows in unit_rows(results).items():
            writer.extend(table, rows)
        for table, rows in extra.items():
            writer.extend(table, rows)
        writer.commit()


def check_infrastructure(unit: WorkUnit, results: Sequence[TreeResult], *, limit: float) -> None:
    """Raise InfrastructureError when a larger share of the unit's trees than `limit` was lost."""
    lost = [result.root for result in results if result.root.outcome == "infra_error"]
    if len(lost) > limit * len(results):
        msg = (
            f"unit {unit.unit_id}: {len(lost)} of {len(results)} trees ended in infrastructure errors"
            f" (infra_error_limit {limit:g}); the last one: {lost[-1].error}"
        )
        raise InfrastructureError(
            msg, hint="mend the policy's engine and run the same command: the unit is played again"
        )


def unit_rows(results: Sequence[TreeResult]) -> dict[str, list[dict[str, Any]]]:
    """Rows by table in planned order; equal tasks once."""
    merged: dict[str, list[dict[str, Any]]] = {}
    seen: set[str] = set()
    for result in results:
        for table, rows in result.rows.items():
            if table == "tasks":
                rows = [row for row in rows if row["task_id"] not in seen]
                seen.update(row["task_id"] for row in rows)
            merged.setdefault(table, []).extend(rows)
    return merged


def runs_row(provenance: Provenance) -> dict[str, Any]:
    """The `runs` row of a shard committed now."""
    return {
        "phase": provenance.phase,
        "schema_version": SCHEMA_VERSION,
        "code_version": code_version(),
        "config": canonical_json(provenance.identity.resolved()),
        "config_hash": provenance.identity.hash(),
        "policies": [dict(policy) for policy in provenance.policies],
        "hardware": hardware(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started_at": provenance.started_at,
        "ended_at": datetime.now(UTC),
    }
