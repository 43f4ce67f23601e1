"""Names and places in a store.

Invariant: every directory that a reader lists (`epochs/`, `shards/`) holds finished directories only; unfinished
ones live in `_staging/`, another root, because DuckDB and Polars globs also enter folders that begin with `_` or `.`.

    store.json · _staging/ · plans/e000003.json · shards/e000003.u0004/ · epochs/e000003/ · epochs/e000003.a001/
    · snapshots/<name>.json

In object storage the same names are keys; there is no `_staging/`, and a directory is what its document names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sera_data.errors import StoreError
from sera_data.place import Place

FORMAT_VERSION = "1.0"
COMMIT = "commit.json"
SEAL = "seal.json"

_PLAN = re.compile(r"e(\d{6,})(?:\.a(\d{3,}))?\Z")
_UNIT = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_SNAPSHOT = re.compile(r"[A-Za-z0-9._-]{1,200}\Z")


@dataclass(frozen=True, slots=True)
class Layout:
    """The directories of one store."""

    root: Place

    @property
    def store_file(self) -> Place:
        """`store.json`, whose existence means that the store does."""
        return self.root / "store.json"

    @property
    def staging(self) -> Place:
        """Where unfinished work lives; no reader looks here."""
        return self.root / "_staging"

    @property
    def plans(self) -> Place:
        """One JSON file per plan."""
        return self.root / "plans"

    @property
    def shards(self) -> Place:
        """Committed work units."""
        return self.root / "shards"

    @property
    def epochs(self) -> Place:
        """Sealed directories."""
        return self.root / "epochs"

    @property
    def snapshots(self) -> Place:
        """What each learn phase consumed."""
        return self.root / "snapshots"

    def plan_file(self, name: str) -> Place:
        """The plan of that name."""
        return self.plans / f"{name}.json"

    def directories(self) -> tuple[Place, ...]:
        """All directories, in the order in which `create` makes them."""
        return (self.staging, self.plans, self.shards, self.epochs, self.snapshots)


def plan_name(epoch: int, addition: int | None = None) -> str:
    """`e000003`, or `e000003.a001` for an addition to that epoch."""
    base = f"e{epoch:06d}"
    return base if addition is None else f"{base}.a{addition:03d}"


def parse_plan_name(name: str) -> tuple[int, int | None]:
    """Epoch and addition number of a plan name; StoreError for anything else."""
    match = _PLAN.match(name)
    if match is None:
        msg = f"{name!r} is not a plan name; allowed: 'e000003' or 'e000003.a001'"
        raise StoreError(msg, hint="sera data ls STORE lists the names")
    return int(match[1]), int(match[2]) if match[2] else None


def is_plan_name(name: str) -> bool:
    """True for `e000003` and `e000003.a001`."""
    return _PLAN.match(name) is not None


def shard_plan(shard_id: str) -> str:
    """Plan that a shard belongs to: `e000003.a001.u0004` -> `e000003.a001`."""
    return shard_id.rpartition(".")[0]


def require_unit_id(unit_id: str) -> str:
    """The unit id, if it is a plain word such as `u0004`."""
    if not _UNIT.match(unit_id):
        msg = f"unit id {unit_id!r} must be 1 to 64 letters, digits, '_' or '-', for example 'u0004'"
        raise StoreError(msg)
    return unit_id


def require_snapshot_name(name: str) -> str:
    """The snapshot name, if it can be a file name."""
    if not _SNAPSHOT.match(name) or name.startswith("."):
        msg = f"snapshot name {name!r} must be letters, digits, '.', '_' or '-', for example 'demo-1f2e3d4c-e000003'"
        raise StoreError(msg)
    return name


def sealed_file_name(table: str, index: int) -> str:
    """`turns.parquet`, then `turns-001.parquet` and so on; `turns*.parquet` finds them all."""
    return f"{table}.parquet" if index == 0 else f"{table}-{index:03d}.parquet"
