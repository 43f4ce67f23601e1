"""ShardWriter: a work unit's rows become visible all at once, or not at all, and exactly once.

Invariant: rows are checked, written aside with `commit.json` last (rows and sha256 per file) and published by one call
of the medium: a rename on disk, a conditional put in object storage. A target that exists means that this unit was
committed before: the retry writes nothing and says so. A unit outside its plan or of a sealed plan is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from schemas import SCHEMA_VERSION, TABLES
from sera_data.canonical import canonical_json
from sera_data.disk import disk_faults, shard_parquet, write_bytes
from sera_data.errors import RowError, StoreError
from sera_data.layout import COMMIT
from sera_data.medium import Staging
from sera_data.plan import Plan
from sera_data.rows import require_columns, row_name, to_arrow
from sera_data.store import Store
from sera_data.tokens import require_aligned, require_token_rule


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What a commit did. `rows` per table; `already_committed` when an earlier try had published the shard."""

    shard_id: str
    rows: dict[str, int]
    already_committed: bool


class ShardWriter:
    """Collects the rows of one work unit and commits them. Use it as a context manager.

    >>> with ShardWriter(store, plan, "u0000") as writer:      # doctest: +SKIP
    ...     writer.add("nodes", {...})
    ...     writer.extend("turns", [...])
    ...     result = writer.commit()
    """

    def __init__(self, store: Store, plan: Plan, unit_id: str) -> None:
        self.store, self.plan, self.unit_id = store, plan, unit_id
        self.shard_id = plan.shard_id(unit_id)
        self.target = store.layout.shards / self.shard_id
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self._defaults = {"run_id": plan.run_id, "epoch": plan.epoch, "shard_id": self.shard_id}
        if plan.sealed() and not plan.has_committed(unit_id):
            raise _sealed(plan, unit_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rows = {name: [] for name in TABLES}

    def add(self, table: str, row: Mapping[str, Any]) -> None:
        """Add one row; run_id, epoch and shard_id are filled in when absent."""
        if table not in TABLES:
            msg = f"no table {table!r}; allowed: {', '.join(TABLES)}"
            raise RowError(msg)
        require_columns(TABLES[table], row)
        self._rows[table].append({**self._defaults, **row})

    def extend(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows in order."""
        for row in rows:
            self.add(table, row)

    def commit(self) -> CommitResult:
        """Check, write and publish the rows; the second commit of a unit changes nothing."""
        if self.plan.has_committed(self.unit_id):
            return self._already()
        self._check()
        medium = self.store.medium
        with disk_faults(f"shard {self.shard_id} was not committed", retry="run the same command again"):
            staging = medium.stage(self.shard_id)
            try:
                files = self._write(staging)
                with self.plan.lock("shared"):
                    if self.plan.sealed():
                        return self._after_seal()
                    if not medium.publish_directory(staging, self.target):
                        return self._taken()
                    self._require_in_time()
            finally:
                medium.unstage(staging)
        return CommitResult(self.shard_id, {name: body["rows"] for name, body in files.items()}, False)

    def _check(self) -> None:
        for table in TABLES.values():
            seen = set()
            for row in self._rows[table.name]:
                key = tuple(row.get(part) for part in table.key)
                if key in seen:
                    msg = f"{row_name(table, row)}: the key is twice in shard {self.shard_id}"
                    raise RowError(msg)
                seen.add(key)
                for column, wanted in self._defaults.items():
                    if row[column] != wanted:
                        name = row_name(table, row)
                        msg = f"{name}: column {column!r} is {row[column]!r}, this shard writes {wanted!r}"
                        raise RowError(msg)
        self._tables = {name: to_arrow(TABLES[name], rows) for name, rows in self._rows.items() if rows}
        optional = {c.name: None for c in TABLES["turns"].columns if c.nullable}
        require_token_rule({**optional, **row} for row in self._rows["turns"])
        require_aligned(self._rows["logprobs"])

    def _write(self, staging: Staging) -> dict[str, dict[str, Any]]:
        files = {}
        for name, data in self._tables.items():
            table, path = TABLES[name], staging.path / staging.file_name(f"{name}.parquet")
            content = shard_parquet(table, data.sort_by([(key, "ascending") for key in table.sort]))
            write_bytes(path, content)
            digest = hashlib.sha256(content).hexdigest()
            files[name] = {"path": path.name, "rows": data.num_rows, "bytes": len(content), "sha256": digest}
        body = {
            "shard_id": self.shard_id,
            "plan": self.plan.name,
            "unit_id": self.unit_id,
            "run_id": self.plan.run_id,
            "config_hash": self.plan.config_hash,
            "policy_hash": self.plan.policy_hash,
            "schema_version": SCHEMA_VERSION,
            "files": files,
        }
        write_bytes(staging.path / COMMIT, canonical_json(body).encode())
        return files

    def _already(self) -> CommitResult:
        if not self.target.exists():  # sealed, and its shard directory cleaned up
            return CommitResult(self.shard_id, {}, True)
        body = self.store.commit_document(self.shard_id)
        return CommitResult(self.shard_id, {name: f["rows"] for name, f in body["files"].items()}, True)

    def _taken(self) -> CommitResult:
        """The name is taken: by a commit of this unit, or by a seal that goes without it."""
        if self.store.medium.closed(self.target):
            raise _sealed(self.plan, self.unit_id)
        return self._already()

    def _require_in_time(self) -> None:
        """Without locks, a writer that slept for hours may find its name free again after gc: then it is too late."""
        if self.plan.sealed() and self.shard_id not in self.store.seal_document(self.plan.name)["shards"]:
            self.store.medium.drop(self.target)
            raise _sealed(self.plan, self.unit_id)

    def _after_seal(self) -> CommitResult:
        if self.plan.has_committed(self.unit_id):
            return self._already()
        raise _sealed(self.plan, self.unit_id)


def _sealed(plan: Plan, unit_id: str) -> StoreError:
    msg = f"plan {plan.name} is sealed without unit {unit_id}; a sealed directory never changes"
    return StoreError(msg, hint="collect the unit's tasks in a new epoch")
