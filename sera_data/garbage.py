"""gc: what dead processes left unfinished, and shards whose rows a seal holds.

Invariant: a sealed directory is never touched, whether a snapshot names it or not. A shard goes only when its seal is
older than an hour (a reader with an older listing may still read it) and every file of that seal has the recorded
hash, because until then the shard is the other copy. A directory is hidden by one call before it is emptied.

Run: ``sera data gc STORE --dry-run``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sera_data.canonical import sha256_file
from sera_data.disk import disk_faults
from sera_data.errors import StoreError, UsageError
from sera_data.layout import SEAL
from sera_data.sealing import sealed_shards

if TYPE_CHECKING:
    from sera_data.store import Store

STAGING_HOURS = 24.0
SEALED_HOURS = 1.0


@dataclass(frozen=True, slots=True)
class Garbage:
    """What was removed (or would be): staging directories, shards and their bytes."""

    staging: tuple[str, ...]
    shards: tuple[str, ...]
    bytes: int
    dry_run: bool


def collect_garbage(
    store: Store, *, staging_hours: float = STAGING_HOURS, sealed_hours: float = SEALED_HOURS, dry_run: bool = False
) -> Garbage:
    """Remove staging older than `staging_hours` and shards sealed for `sealed_hours`; `dry_run` only lists them."""
    if not (sealed_hours >= 0 and staging_hours >= 0):  # NaN is refused too
        msg = f"hours must be 0 or more, got staging {staging_hours}, sealed {sealed_hours}"
        raise UsageError(msg)
    now = time.time()
    staging = [left for left in store.medium.leftovers() if now - left.newest > staging_hours * 3600]
    shards = [store.layout.shards / shard for shard in _droppable(store, now=now, hours=sealed_hours)]
    size = sum(left.bytes for left in staging) + sum(store.medium.size(path) for path in shards)
    if not dry_run:
        with disk_faults(f"store {store.path} was not cleaned", retry="run gc again"):
            for left in staging:
                left.remove()
            for path in shards:
                store.medium.drop(path)
    return Garbage(tuple(left.name for left in staging), tuple(p.name for p in shards), size, dry_run)


def _droppable(store: Store, *, now: float, hours: float) -> list[str]:
    present = set(store.shard_ids())
    old: dict[str, bool] = {}
    out = []
    for name, shard in sealed_shards(store):
        if shard not in present:
            continue
        if name not in old:
            old[name] = now - (store.layout.epochs / name / SEAL).stat().st_mtime >= hours * 3600
            if old[name]:
                _require_sound(store, name)
        if old[name]:
            out.append(shard)
    return out


def _require_sound(store: Store, name: str) -> None:
    for facts in store.seal_document(name)["tables"].values():
        for file in facts["files"]:
            path = store.layout.epochs / name / file["path"]
            if not path.exists() or sha256_file(path) != file["sha256"]:
                msg = f"{path} is missing or changed, so the shards of {name} are kept"
                raise StoreError(msg, hint=f"restore epochs/{name} from a copy, then run gc again")
