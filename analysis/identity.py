"""What an audit was measured for: store, view, seals, writers, scorers, policies.

Invariant: hashes are read from the store's documents, never recomputed differently, so that a report can be matched
with `sera data verify`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analysis.query import rows
from analysis.results import Agent, Identity
from sera_data.canonical import sha256_file
from sera_data.documents import read_document
from sera_data.layout import SEAL

if TYPE_CHECKING:
    import duckdb

    from sera_data.store import Store, View


def identify(
    store: Store,
    con: duckdb.DuckDBPyConnection,
    *,
    view: View = "live",
    snapshot: str | None = None,
    epochs: Sequence[int] | None = None,
) -> Identity:
    """Identity of one view of a store; `con` has the audit's tables prepared."""
    body = read_document(store.layout.store_file, kind="store file", hint="name the directory that holds store.json")
    sources = store.listing(view=view, snapshot=snapshot, epochs=epochs).sources
    seals = {s.name: sha256_file(store.layout.epochs / s.name / SEAL) for s in sources if s.kind == "seal"}
    return Identity(
        path=str(store.path),
        view=view,
        snapshot=snapshot,
        snapshot_sha256=None if snapshot is None else sha256_file(store.layout.snapshots / f"{snapshot}.json"),
        epochs=None if epochs is None else sorted(epochs),
        format_version=body.get("format_version"),
        schema_version=body.get("schema_version"),
        seals=seals,
        unsealed_shards=sum(s.kind == "shard" for s in sources),
        agents=agents(con),
        policies=policies(con),
    )


def agents(con: duckdb.DuckDBPyConnection) -> list[Agent]:
    """Writers and scorers of the audited rows."""
    return [Agent(**row) for row in rows(con, "writers")]


def policies(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Policies, code and configuration behind the collect shards."""
    return rows(con, "policies")
