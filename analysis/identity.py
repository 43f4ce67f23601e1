"""What an audit was measured for: store, view, seals, writers, scorers, policies.

Invariant: hashes are read from the store's documents, never recomputed differently, so that a report can be matched
with `sera data verify`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analysis.query import counted, rows
from analysis.results import Agent, Identity
from sera_data.canonical import sha256_file, sha256_json
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
    held_out: float | None = None,
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
        held_out=held_out,
        format_version=body.get("format_version"),
        schema_version=body.get("schema_version"),
        seals=seals,
        unsealed_shards=sum(s.kind == "shard" for s in sources),
        snapshot_hash=sha256_json([[s.kind, s.name, *s.hashes] for s in sources]),
        rubric_prompts=counted(con, "rubric_prompts")[0]["sha256"],
        agents=agents(con),
        policies=policies(con),
    )


def agents(con: duckdb.DuckDBPyConnection) -> list[Agent]:
    """Writers and scorers of the audited rows."""
    return [Agent(**row) for row in counted(con, "writers")]


def policies(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Policies, code and configuration behind the collect shards."""
    return rows(con, "policies")


def differences(old: dict[str, Any], new: Identity) -> list[str]:
    """What an older audit (`identity` of its JSON) was measured for that no longer holds, in words; or none."""
    now = new.model_dump(mode="json")
    found = []
    for role in ("writer", "scorer"):
        then, here = (_versions(agents, role) for agents in (old.get("agents", []), now["agents"]))
        if then != here:
            found.append(f"{role} {then or 'none'} then, {here or 'none'} now")
    if old.get("held_out") != new.held_out:
        shares = (old.get("held_out"), new.held_out)
        then, here = ("all tasks" if share is None else f"held-out share {share:g}" for share in shares)
        found.append(f"{then} then, {here} now")
    if old.get("rubric_prompts") != now["rubric_prompts"]:
        found.append("rubrics were written from other prompts")
    if old.get("snapshot_hash") != now["snapshot_hash"]:
        seals = (set(old.get("seals", {}).items()), set(now["seals"].items()))
        new_seals, gone = (sorted(name for name, _ in part) for part in (seals[1] - seals[0], seals[0] - seals[1]))
        words = [f"{', '.join(new_seals)} new or changed"] if new_seals else []
        words += [f"{', '.join(gone)} gone or changed"] if gone else []
        words += [] if words else ["unsealed shards changed"]
        found.append(f"other data: {'; '.join(words)}")
    return found


def _versions(agents: list[dict[str, Any]], role: str) -> str:
    return ", ".join(sorted({f"{a['name']} version {a['version']}" for a in agents if a["role"] == role}))
