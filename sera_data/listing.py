"""Which files make up a view of the store at one moment.

Invariant: `epochs/` is listed before `shards/`. A seal that appears between the two listings is not used, and its
shards are still there (they stay for an hour), so no row is missing and none is read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from schemas import TABLES
from sera_data.errors import StoreError
from sera_data.layout import parse_plan_name, shard_plan
from sera_data.place import Place, sizes

if TYPE_CHECKING:
    from sera_data.beside import Beside
    from sera_data.store import Store


@dataclass(frozen=True, slots=True)
class Source:
    """One published directory: a seal or a shard, with the file facts it recorded."""

    name: str
    kind: Literal["seal", "shard"]
    schema_version: str
    files: tuple[tuple[str, Place, int, int], ...]
    """(table, path, rows, bytes) per file."""
    hashes: tuple[str, ...]
    """Recorded sha256 per file, in the same order."""
    shift: int = 0
    """Added to `epoch` of its rows: 0, or a million and more for another store beside this one."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The sources of a view. Equal listings show equal rows."""

    store: Place
    sources: tuple[Source, ...] = field(default_factory=tuple)

    def files(self, table: str) -> list[Place]:
        """Files of a table that hold rows."""
        return [path for s in self.sources for name, path, rows, _ in s.files if name == table and rows]

    def rows(self, table: str) -> int:
        """Recorded number of rows of a table."""
        return sum(rows for s in self.sources for name, _, rows, _ in s.files if name == table)

    def bytes(self, table: str) -> int:
        """Recorded size of a table's files."""
        return sum(size for s in self.sources for name, _, _, size in s.files if name == table)


def list_files(
    store: Store,
    *,
    view: Literal["live", "sealed"] = "live",
    snapshot: str | None = None,
    epochs: Sequence[int] | None = None,
) -> Listing:
    """List a view: `live`, `sealed`, or what a snapshot names; optionally only some epochs (with their additions)."""
    if view not in ("live", "sealed"):
        msg = f"view {view!r} is not one of live, sealed"
        raise StoreError(msg)
    beside: list[Source] = []
    if snapshot is not None:
        from sera_data.snapshot import read_snapshot

        found = read_snapshot(store, snapshot)
        names, shards = sorted(found.directories), []
        beside = [source for other in found.others for source in other.sources()]
    else:
        names = store.sealed_names()
        sealed = set(names)
        shards = [s for s in store.shard_ids() if shard_plan(s) not in sealed] if view == "live" else []
    if epochs is not None:
        wanted = set(epochs)
        names = [n for n in names if parse_plan_name(n)[0] in wanted]
        shards = [s for s in shards if parse_plan_name(shard_plan(s))[0] in wanted]
    sources = [seal_source(store, n) for n in names] + [shard_source(store, s) for s in shards]
    listing = Listing(store.path, tuple(sources + beside))
    require_whole(listing)
    return listing


def list_beside(listing: Listing, others: Sequence[Beside]) -> Listing:
    """The listing with sealed directories of other stores, as a snapshot that names them shows them."""
    joined = Listing(listing.store, (*listing.sources, *(source for other in others for source in other.sources())))
    require_whole(joined)
    return joined


def seal_source(store: Store, name: str) -> Source:
    """The files that a seal records."""
    body = store.seal_document(name)
    directory = store.layout.epochs / name
    recorded = [(table, f) for table in TABLES for f in body["tables"].get(table, {}).get("files", [])]
    return _source(name, "seal", body["schema_version"], directory, recorded)


def shard_source(store: Store, shard_id: str) -> Source:
    """The files that a commit records."""
    body: dict[str, Any] = store.commit_document(shard_id)
    directory = store.layout.shards / shard_id
    recorded = [(table, f) for table, f in sorted(body["files"].items()) if table in TABLES]
    return _source(shard_id, "shard", body["schema_version"], directory, recorded)


def _source(
    name: str,
    kind: Literal["seal", "shard"],
    version: str,
    directory: Place,
    recorded: list[tuple[str, dict[str, Any]]],
) -> Source:
    files = tuple((table, directory / f["path"], f["rows"], f["bytes"]) for table, f in recorded)
    return Source(name, kind, version, files, tuple(f["sha256"] for _, f in recorded))


def require_whole(listing: Listing) -> None:
    """Refuse a listing with a file that is missing or has not its recorded size; hashes are for `verify`."""
    found = sizes(path for source in listing.sources for _, path, _, _ in source.files)
    for source in listing.sources:
        for _, path, _, size in source.files:
            if found[path] is None:
                msg = f"{path} is missing; {source.kind} {source.name} records it with {size} bytes"
                raise StoreError(msg, hint=repair(source))
            if found[path] != size:
                msg = f"{path} has {found[path]} bytes; {source.kind} {source.name} records {size}"
                raise StoreError(msg, hint=repair(source))


def repair(source: Source) -> str:
    """What to do about a damaged file of a source."""
    if source.kind == "seal":
        return f"restore epochs/{source.name} from a copy; sera data verify STORE names every damaged file"
    return f"restore the file, or remove shards/{source.name} and run its collector again"
