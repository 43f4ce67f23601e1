"""The few file system verbs the store is built from; every write of the store goes through here.

Invariant: bytes are on the disk (fsync) before the name that makes them visible exists, and a name appears by one
atomic call: `os.rename` for a directory, `os.link` for a file. So a crash at any moment leaves the old state or the
new one. Nothing here overwrites anything.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sera_data.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from schemas.table import Table

SHARD_ZSTD, SEALED_ZSTD = 3, 6
"""A commit must be quick; a seal is written once, is a tenth smaller at level 6 and no slower to read."""


@contextlib.contextmanager
def disk_faults(action: str, *, retry: str) -> Iterator[None]:
    """Turn an OSError into a StoreError: what did not happen, why, and that `retry` is safe."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        reason = "the disk is full" if full else str(error.strerror or error)
        msg = f"{action}: {reason}" + (f" ({error.filename})" if error.filename else "")
        raise StoreError(msg, hint=f"nothing was lost: free space or fix the cause, then {retry}") from error


def make_staging(staging_root: Path, name: str) -> Path:
    """A new private directory `_staging/<name>.<host>.<pid>`, with a counter when a dead process left one."""
    host = "".join(c if c.isalnum() or c == "-" else "-" for c in socket.gethostname())
    staging_root.mkdir(exist_ok=True)
    for counter in range(1_000_000):
        suffix = f".{counter}" if counter else ""
        path = staging_root / f"{name}.{host}.{os.getpid()}{suffix}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    msg = f"{staging_root} holds a million leftovers of {name!r}"
    raise StoreError(msg, hint="sera data gc STORE removes old leftovers")


def write_bytes(path: Path, data: bytes) -> None:
    """Write a new file of a staging directory; publishing forces it to the disk."""
    with path.open("xb") as handle:
        handle.write(data)


@contextlib.contextmanager
def sealed_parquet(path: Path, table: Table) -> Iterator[pq.ParquetWriter]:
    """A writer for a sealed file, with the column documentation in it; on leaving, the file is complete."""
    import pyarrow.parquet as pq

    with path.open("xb") as handle, pq.ParquetWriter(handle, table.schema, **encodings(table)) as writer:
        yield writer


def shard_parquet(table: Table, rows: pa.Table) -> bytes:
    """The bytes of a shard's file, without the dictionaries, statistics and documentation that the seal adds."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    options = {**encodings(table), "compression_level": SHARD_ZSTD, "use_dictionary": False, "write_statistics": False}
    pq.write_table(rows, sink, row_group_size=table.row_group, **options)
    return sink.getvalue().to_pybytes()


@cache
def encodings(table: Table) -> Mapping[str, Any]:
    """ParquetWriter options: zstd; dictionaries for scalar strings only; logprobs byte-stream-split; ids plain.

    Statistics are kept where the sort order lets them prune (ids, epoch): DuckDB turns those of every row group into
    its own at each query, so the others cost time and prune nothing.
    """
    import pyarrow as pa

    scalars = [c for c in table.columns if not pa.types.is_nested(c.type)]
    strings = [c.name for c in scalars if pa.types.is_string(c.type)]
    pruning = [c.name for c in scalars if c.name.endswith("_id") or c.name == "epoch"]
    split = {
        f"{c.name}.list.element": "BYTE_STREAM_SPLIT"
        for c in table.columns
        if pa.types.is_list(c.type) and pa.types.is_floating(c.type.value_type)
    }
    return {
        "compression": "zstd",
        "compression_level": SEALED_ZSTD,
        "use_dictionary": strings,
        "column_encoding": split,
        "write_statistics": pruning,
    }


def sync_directory(path: Path) -> None:
    """Force the names in a directory to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_files(directory: Path) -> None:
    """Force the files of a staging directory and their names to the disk.

    All files are written before the first is synced: the file system then needs few journal commits, not one a file.
    """
    for path in sorted(directory.iterdir()):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    sync_directory(directory)


def publish_directory(staging: Path, target: Path) -> bool:
    """Rename a finished staging directory to its final name; False when that name is taken (already published).

    The target is never made before: renaming over an empty directory would succeed and hide a fault.
    """
    sync_files(staging)
    try:
        os.rename(staging, target)  # noqa: PTH104 - the one call that makes the rows visible
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    sync_directory(target.parent)
    return True


def publish_file(staging_root: Path, target: Path, data: bytes) -> bool:
    """Create `target` with `data`, all at once and only if it does not exist; False when it exists."""
    if target.exists():
        return False
    with disk_faults(f"{target} was not written", retry="try again"):
        work = make_staging(staging_root, target.name)
        try:
            write_bytes(work / target.name, data)
            sync_files(work)
            try:
                os.link(work / target.name, target)  # fails when the name exists, unlike rename
            except FileExistsError:
                return False
            sync_directory(target.parent)
            return True
        finally:
            remove_tree(work)


def remove_tree(path: Path) -> None:
    """Remove a private directory and what is in it; one that is gone already is fine."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)
