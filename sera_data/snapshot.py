"""Snapshots: exactly which sealed directories a learn phase consumed.

Invariant: a snapshot is written once, before the first read, and names each directory with the sha256 of its
seal.json, which itself holds the sha256 of every file. So training from a snapshot reads the same bytes years later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sera_data.beside import Beside, read_beside, require_apart, require_seals
from sera_data.canonical import sha256_file
from sera_data.documents import dump_document, read_document, require_shape
from sera_data.errors import StoreError
from sera_data.layout import SEAL, require_snapshot_name
from sera_data.place import Place

if TYPE_CHECKING:
    from sera_data.store import Store


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot as stored. `directories`: name -> sha256 of its seal.json; `hashes`: what else the phase fixed.

    others: directories of further stores that it consumed as well.
    """

    name: str
    path: Place
    sha256: str
    directories: dict[str, str]
    hashes: dict[str, str | None]
    others: tuple[Beside, ...] = ()


def take_snapshot(
    store: Store, name: str, *, directories: Sequence[str], others: Sequence[Beside] = (), **hashes: str | None
) -> Snapshot:
    """Write the snapshot, or return the equal one that is there; a different one of that name is refused.

    `others` are sealed directories of further stores; `hashes` are words such as policy_hash, credit_hash, config_hash.
    """
    path = store.layout.snapshots / f"{require_snapshot_name(name)}.json"
    sealed = set(store.sealed_names())
    missing = sorted(set(directories) - sealed)
    if missing or not directories:
        known = ", ".join(sorted(sealed))
        msg = f"snapshot {name} wants sealed directories, got {missing or 'none'}; sealed are: {known}"
        raise StoreError(msg, hint="sera data seal STORE seals a plan")
    seals = {d: sha256_file(store.layout.epochs / d / SEAL) for d in sorted(set(directories))}
    body: dict[str, Any] = {
        "name": name,
        "store_id": store.store_id,
        "directories": seals,
        "hashes": dict(sorted(hashes.items())),
    }
    if others:
        require_apart(store, others)
        body["others"] = [other.body() for other in others]
    if not store.medium.publish_file(path, dump_document(body)) and path.read_bytes() != dump_document(body):
        msg = f"snapshot {path} exists and names something else; a snapshot is written once"
        raise StoreError(msg, hint="choose another name")
    return read_snapshot(store, name)


def read_snapshot(store: Store, name: str) -> Snapshot:
    """The snapshot of that name; refused when a directory it names is gone or has another seal."""
    path = store.layout.snapshots / f"{require_snapshot_name(name)}.json"
    body = read_document(path, kind="snapshot", hint="sera data ls STORE lists the snapshots")
    require_shape(body, path, kind="snapshot")
    require_seals(store, body["directories"], snapshot=name)
    others = tuple(read_beside(entry, path) for entry in body.get("others", ()))
    return Snapshot(name, path, sha256_file(path), dict(body["directories"]), dict(body["hashes"]), others)
