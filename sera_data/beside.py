"""Stores beside a store: sealed directories of further stores that one snapshot reads together with its own.

Invariant: the epochs of the n-th further store are shown shifted by n million, so that groups of different stores never
share a baseline; no two stores may hold the same trees. A snapshot names each with its id, its path and the sha256 of
every seal, and is refused where one of them is another or gone.

Run: ``sera learn --store A --with B --with C@3 ...``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sera_data.canonical import sha256_file
from sera_data.documents import DAMAGED
from sera_data.errors import StoreError
from sera_data.layout import SEAL
from sera_data.place import Place, place

if TYPE_CHECKING:
    from sera_data.listing import Source
    from sera_data.store import Store

SHIFT = 1_000_000


@dataclass(frozen=True, slots=True)
class Beside:
    """Sealed directories of a further store. shift: what is added to its epochs; seals: sha256 of each seal.json."""

    store: Store
    shift: int
    seals: Mapping[str, str]

    def sources(self) -> list[Source]:
        """Its files, as a listing takes them."""
        from dataclasses import replace

        from sera_data.listing import seal_source

        return [replace(seal_source(self.store, name), shift=self.shift) for name in sorted(self.seals)]

    def body(self) -> dict[str, Any]:
        """What a snapshot writes of it."""
        path = str(self.store.path.resolve())
        return {
            "store_id": self.store.store_id,
            "path": path,
            "shift": self.shift,
            "directories": dict(sorted(self.seals.items())),
        }


def put_beside(chosen: Sequence[tuple[Store, Sequence[str]]]) -> tuple[Beside, ...]:
    """Further stores with the sealed directories wanted of each, in the order given."""
    found = []
    for index, (store, directories) in enumerate(chosen, start=1):
        missing = sorted(set(directories) - set(store.sealed_names()))
        if missing or not directories:
            known = ", ".join(store.sealed_names()) or "none"
            msg = f"store {store.path} has no sealed directory {missing[0] if missing else ''}; sealed are: {known}"
            raise StoreError(msg, hint=f"sera data seal {store.path} seals a plan")
        seals = {name: sha256_file(store.layout.epochs / name / SEAL) for name in directories}
        found.append(Beside(store, index * SHIFT, seals))
    return tuple(found)


def require_apart(store: Store, others: Sequence[Beside]) -> None:
    """Refuse a store that is there twice; equal trees in two of them are refused where they are read."""
    seen = {store.store_id: store.path}
    for other in others:
        if other.store.store_id in seen:
            first = seen[other.store.store_id]
            msg = f"store {other.store.path} is the same as {first}; a snapshot reads each store once"
            raise StoreError(msg, hint="leave one of them out")
        seen[other.store.store_id] = other.store.path


def read_beside(entry: Any, snapshot: Place) -> Beside:
    """A further store as a snapshot wrote it down; StoreError when another store is at its path, or a seal changed."""
    from sera_data.store import open_store

    try:
        path, store_id, shift = place(entry["path"]), str(entry["store_id"]), int(entry["shift"])
        seals = {str(name): str(sha256) for name, sha256 in entry["directories"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        msg = f"snapshot {snapshot} is damaged: an entry of others lacks {error}"
        raise StoreError(msg, hint=DAMAGED) from None
    store = open_store(path)
    if store.store_id != store_id:
        msg = f"snapshot {snapshot} names store {store_id} at {path}, there is store {store.store_id}"
        raise StoreError(msg, hint="put the store back where it was when the snapshot was taken")
    require_seals(store, seals, snapshot=snapshot.stem)
    return Beside(store, shift, seals)


def require_seals(store: Store, seals: Mapping[str, str], *, snapshot: str) -> None:
    """StoreError when a directory that a snapshot names is gone or has another seal."""
    for directory, wanted in seals.items():
        seal = store.layout.epochs / directory / SEAL
        if not seal.exists():
            msg = f"snapshot {snapshot} names {directory}, but {seal} is missing"
            raise StoreError(msg, hint=f"restore epochs/{directory} from a copy")
        found = sha256_file(seal)
        if found != wanted:
            msg = f"snapshot {snapshot} names {directory} with seal {wanted[:12]}, but {seal} has {found[:12]}"
            raise StoreError(msg, hint=f"restore epochs/{directory} from the copy that was trained from")
