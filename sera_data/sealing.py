"""Seal: a plan's shards, checked, sorted and compacted into one directory that never changes.

Invariant: the directory appears by one call of the medium, complete with `seal.json` (shards, rows, sha256, min/max
tree_id per file, content hash per table), or not at all. It holds ten tables and those overlays that have rows, at most
250,000 turns a file. Nothing is sealed that breaks a check of `checks/*.sql`; earlier seals count as known rows for
foreign keys.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schemas import SCHEMA_VERSION, TABLES
from sera_data.canonical import sha256_file
from sera_data.content import directory_hash, in_blocks, table_hashes
from sera_data.disk import disk_faults, sealed_parquet, write_bytes
from sera_data.documents import dump_document
from sera_data.duck import ordered_batches
from sera_data.errors import StoreError
from sera_data.layout import COMMIT, SEAL, sealed_file_name
from sera_data.listing import Source, shard_source
from sera_data.medium import Staging
from sera_data.place import Place
from sera_data.plan import Plan, read_plan
from sera_data.sealing_checks import checked_connection

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from schemas.table import Table
    from sera_data.store import Store

MAX_ROWS = {"turns": 250_000, "logprobs": 250_000}
"""Most rows in one file of a table; 2,000,000 for the tables not named here."""


@dataclass(frozen=True, slots=True)
class SealResult:
    """A sealed directory: rows per table, units that a partial seal lacks, and the content hash."""

    name: str
    path: Place
    rows: dict[str, int]
    missing: tuple[str, ...]
    content_hash: str
    already_sealed: bool


def seal(store: Store, plan_name: str, *, partial: bool = False) -> SealResult:
    """Seal a plan; sealing a sealed plan returns what is there.

    Every planned unit must be committed, unless `partial`; then the seal names the missing ones.
    """
    plan = read_plan(store, plan_name)
    with plan.lock("exclusive"):
        if plan.sealed():
            return _result(store, plan_name, already=True)
        committed = plan.committed()
        missing = [unit for unit in plan.unit_ids if unit not in committed]
        if missing and not partial:
            msg = f"plan {plan_name} misses {len(missing)} of {len(plan.unit_ids)} units: {', '.join(missing[:8])}"
            raise StoreError(msg, hint="collect them, or seal without them: sera data seal STORE PLAN --partial")
        shards = [plan.shard_id(unit) for unit in plan.unit_ids if unit in committed]
        with disk_faults(f"plan {plan_name} was not sealed", retry="seal again"):
            _publish(store, plan, shards, missing)
    return _result(store, plan_name, already=False)


def _publish(store: Store, plan: Plan, shards: Sequence[str], missing: Sequence[str]) -> None:
    sources = [shard_source(store, shard) for shard in shards]
    connection = checked_connection(store, plan, sources)
    staging = store.medium.stage(f"seal-{plan.name}")
    try:
        tables = {
            name: write_table(connection, table, staging)
            for name, table in TABLES.items()
            if table.sealed == "always" or _has_rows(sources, name)
        }
        connection.close()
        written = Source(
            plan.name,
            "seal",
            SCHEMA_VERSION,
            tuple((t, staging.path / f["path"], f["rows"], f["bytes"]) for t, b in tables.items() for f in b["files"]),
            tuple(f["sha256"] for b in tables.values() for f in b["files"]),
        )
        hashes = table_hashes(store.path, written)
        body = {
            "name": plan.name,
            "epoch": plan.epoch,
            "addition": plan.addition,
            "run_id": plan.run_id,
            "phase": plan.phase,
            "policy_hash": plan.policy_hash,
            "config_hash": plan.config_hash,
            "schema_version": SCHEMA_VERSION,
            "shards": list(shards),
            "commits": {shard: sha256_file(store.layout.shards / shard / COMMIT) for shard in shards},
            "partial": bool(missing),
            "missing": list(missing),
            "tables": {name: {**facts, "content_hash": hashes[name]} for name, facts in tables.items()},
            "content_hash": directory_hash(hashes),
            "sealed_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        write_bytes(staging.path / SEAL, dump_document(body))
        target = store.layout.epochs / plan.name
        store.medium.publish_directory(staging, target, last=lambda: _close(store, plan, missing))
    finally:
        store.medium.unstage(staging)


def _has_rows(sources: Sequence[Source], name: str) -> bool:
    return any(table == name and rows for source in sources for table, _, rows, _ in source.files)


def _close(store: Store, plan: Plan, missing: Sequence[str]) -> None:
    """From here on the missing units cannot be committed any more; one that was, meanwhile, belongs into the seal."""
    late = store.medium.close([store.layout.shards / plan.shard_id(unit) for unit in missing])
    if late:
        msg = f"plan {plan.name} was not sealed: {', '.join(place.name for place in late)} was committed meanwhile"
        raise StoreError(msg, hint="seal again")


def write_table(connection: duckdb.DuckDBPyConnection, table: Table, staging: Staging) -> dict[str, Any]:
    """Write the rows of `fresh.<table>` sorted and compacted; returns rows and files as `seal.json` names them."""
    blocks = in_blocks(ordered_batches(connection, table, table.sort, source=f"fresh.{table.name}"), table.row_group)
    per_file = max(1, MAX_ROWS.get(table.name, 2_000_000) // table.row_group)
    files: list[dict[str, Any]] = []
    block = next(blocks, None)
    while block is not None or not files:  # a table without rows still gets its file
        path = staging.path / staging.file_name(sealed_file_name(table.name, len(files)))
        facts: dict[str, Any] = {"path": path.name, "rows": 0, "tree_id_min": None, "tree_id_max": None}
        with sealed_parquet(path, table) as writer:
            for _ in range(per_file):
                if block is None:
                    break
                writer.write_batch(block, row_group_size=table.row_group)
                _count(facts, block)
                block = next(blocks, None)
        files.append({**facts, "bytes": path.stat().st_size, "sha256": sha256_file(path)})
    return {"rows": sum(f["rows"] for f in files), "files": files}


def _count(facts: dict[str, Any], block: pa.RecordBatch) -> None:
    import pyarrow.compute as pc

    facts["rows"] += block.num_rows
    if "tree_id" in block.schema.names:
        ends = pc.min_max(block.column("tree_id")).as_py()
        facts["tree_id_min"] = min(x for x in (facts["tree_id_min"], ends["min"]) if x is not None)
        facts["tree_id_max"] = max(x for x in (facts["tree_id_max"], ends["max"]) if x is not None)


def _result(store: Store, name: str, *, already: bool) -> SealResult:
    body = store.seal_document(name)
    rows = {table: facts["rows"] for table, facts in body["tables"].items()}
    path = store.layout.epochs / name
    return SealResult(name, path, rows, tuple(body["missing"]), body["content_hash"], already)


def sealed_shards(store: Store) -> Iterator[tuple[str, str]]:
    """(seal, shard) for every shard that a seal holds."""
    for name in store.sealed_names():
        for shard in store.seal_document(name)["shards"]:
            yield name, shard
