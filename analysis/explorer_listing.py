"""The few files of a store in which the rows of one tree can be.

Invariant: no row of the tree is missed: a source of another epoch holds none (rows are filed under their node's
epoch), nor does a sealed file whose recorded range of tree ids leaves the tree out. Shards record no range.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sera_data.layout import parse_plan_name, shard_plan
from sera_data.listing import Listing, Source

if TYPE_CHECKING:
    from sera_data.store import Store


def files_of_tree(store: Store, listing: Listing, *, tree_id: str, epoch: int) -> Listing:
    """The listing without the files that cannot hold a row of that tree."""
    sources = [source for source in listing.sources if _epoch(source) == epoch]
    return Listing(listing.store, tuple(_narrowed(store, source, tree_id) for source in sources))


def _epoch(source: Source) -> int:
    return parse_plan_name(source.name if source.kind == "seal" else shard_plan(source.name))[0]


def _narrowed(store: Store, source: Source, tree_id: str) -> Source:
    if source.kind == "shard":
        return source
    tables = store.seal_document(source.name)["tables"]
    outside = {
        file["path"]
        for table in tables.values()
        for file in table["files"]
        if file.get("tree_id_min") is not None and not file["tree_id_min"] <= tree_id <= file["tree_id_max"]
    }
    kept = [i for i, (_, path, _, _) in enumerate(source.files) if path.name not in outside]
    return replace(source, files=tuple(source.files[i] for i in kept), hashes=tuple(source.hashes[i] for i in kept))
