"""content_hash: one hash for what a sealed directory says, whatever its files look like.

Invariant: sha256 over all rows in key order, without the columns that the schema marks volatile (times, hosts). File
boundaries, row groups, encodings and library versions do not enter: values are fed as little-endian bytes with
lengths and validity, in blocks of a fixed number of rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from schemas import TABLES
from sera_data.canonical import sha256_json
from sera_data.duck import connect_tables, ordered_batches
from sera_data.errors import StoreError
from sera_data.listing import Listing, Source, seal_source
from sera_data.place import Place

if TYPE_CHECKING:
    from schemas.table import Table
    from sera_data.store import Store

BLOCK_ROWS = 2_048


def content_hash(store: Store, directory: str | Place) -> str:
    """Hash of a sealed directory, given as a name (`e000003`) or a path; read from its rows, not from seal.json."""
    name = str(directory).rstrip("/").rpartition("/")[2]
    if name not in store.sealed_names():
        msg = f"{directory} is not a sealed directory of {store.path}; sealed are: {', '.join(store.sealed_names())}"
        raise StoreError(msg, hint="sera data seal STORE seals a plan")
    return directory_hash(table_hashes(store.path, seal_source(store, name)))


def table_hashes(path: Place, source: Source) -> dict[str, str]:
    """Content hash of each table of one directory; an overlay without rows is no part of it."""
    connection = connect_tables(Listing(path, (source,)))
    held = {name for name, _, rows, _ in source.files if rows}
    return {
        name: _table_hash(table, ordered_batches(connection, table, table.key))
        for name, table in TABLES.items()
        if table.sealed == "always" or name in held
    }


def directory_hash(tables: Mapping[str, str | None]) -> str:
    """One hash for the tables of a directory."""
    return sha256_json(dict(tables))


def _table_hash(table: Table, batches: Iterator[pa.RecordBatch]) -> str:
    digest = hashlib.sha256()
    for block in in_blocks(batches, BLOCK_ROWS):
        for name in table.stable_columns:
            digest.update(f"{name}:{block.num_rows};".encode())
            _feed(digest, block.column(name))
    return digest.hexdigest()


def in_blocks(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in record batches of exactly `rows` rows, the last one shorter."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        start = 0
        while batch.num_rows - start:
            take = min(rows - count, batch.num_rows - start)
            held.append(batch.slice(start, take))
            count, start = count + take, start + take
            if count == rows:
                yield pa.concat_batches(held)
                held, count = [], 0
    if held:
        yield pa.concat_batches(held)


def _feed(digest: Any, array: pa.Array) -> None:
    kind = array.type
    digest.update(np.packbits(array.is_valid().to_numpy(zero_copy_only=False)).tobytes())
    if pa.types.is_list(kind):
        digest.update(_bytes(array.value_lengths().fill_null(0), pa.int32()))
        _feed(digest, array.flatten())
    elif pa.types.is_struct(kind):
        for member in array.flatten():
            _feed(digest, member)
    elif pa.types.is_string(kind):
        values = [value.encode() for value in array.fill_null("").to_pylist()]
        digest.update(np.array([len(value) for value in values], dtype="<i8").tobytes())
        digest.update(b"".join(values))
    elif pa.types.is_boolean(kind):
        digest.update(_bytes(array.fill_null(False).cast(pa.int8()), pa.int8()))
    elif pa.types.is_timestamp(kind):
        digest.update(_bytes(array.cast(pa.int64()).fill_null(0), pa.int64()))
    else:
        digest.update(_bytes(array.fill_null(0), kind))


def _bytes(array: pa.Array, kind: pa.DataType) -> bytes:
    values = array.cast(kind).to_numpy(zero_copy_only=False)
    return values.astype(values.dtype.newbyteorder("<")).tobytes()
