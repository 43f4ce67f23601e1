"""The few file system verbs the store is built from; every write of the store goes through here.

Invariant: bytes are on the disk (fsync) before the name that makes them visible exists, and a name appears by one
atomic call: `os.rename` for a directory, `os.link` for a file. So a crash at any moment leaves the old state or the
new one. Nothing here overwrites anything.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sera_data.errors import StoreError
from sera_data.layout import is_plan_name, shard_plan
from sera_data.medium import Leftover, Staging
from sera_data.place import Place

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from schemas.table import Table
    from sera_data.layout import Layout

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

    options = encodings(table, level=SEALED_ZSTD)
    with path.open("xb") as handle, pq.ParquetWriter(handle, table.schema, **options) as writer:
        yield writer


def shard_parquet(table: Table, rows: pa.Table) -> bytes:
    """The bytes of a shard's file, without the dictionaries, statistics and documentation that the seal adds."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    options = {**encodings(table, level=SHARD_ZSTD), "use_dictionary": False, "write_statistics": False}
    pq.write_table(rows, sink, row_group_size=table.row_group, **options)
    return sink.getvalue().to_pybytes()


@cache
def encodings(table: Table, *, level: int) -> Mapping[str, Any]:
    """ParquetWriter options: zstd of a level; dictionaries for scalar strings only; logprobs and ids in lists are
    byte-stream-split and in LZ4.

    Token ids are small numbers: their upper bytes, side by side, are long runs that cost nothing to store or to read.
    What is left of ids and logprobs is close to noise: zstd finds a fifth more in it and takes three times as long to
    undo it, and a learner reads nothing else.

    Statistics are kept where the sort order lets them prune (ids, epoch): DuckDB turns those of every row group into
    its own at each query, so the others cost time and prune nothing.
    """
    import pyarrow as pa

    scalars = [c for c in table.columns if not pa.types.is_nested(c.type)]
    strings = [c.name for c in scalars if pa.types.is_string(c.type)]
    pruning = [c.name for c in scalars if c.name.endswith("_id") or c.name == "epoch"]
    split = [
        f"{c.name}.list.element"
        for c in table.columns
        if pa.types.is_list(c.type) and (pa.types.is_floating(c.type.value_type) or c.type.value_type == pa.int32())
    ]
    paths = [path for c in table.columns for path in _leaves(c.name, c.type)]
    return {
        "compression": {path: "lz4" if path in split else "zstd" for path in paths},
        "compression_level": {path: level for path in paths if path not in split},
        "use_dictionary": strings,
        "column_encoding": dict.fromkeys(split, "BYTE_STREAM_SPLIT"),
        "write_statistics": pruning,
    }


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """Paths of the Parquet columns that a column of a type becomes."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for member in kind:
            yield from _leaves(f"{path}.{member.name}", member.type)
    else:
        yield path


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


class Disk:
    """The verbs of `medium.py` on a file system."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._staging = _path(layout.staging)

    def prepare(self) -> None:
        """Make the directories of a store."""
        with disk_faults(f"store {self._layout.root} was not created", retry="try again"):
            _path(self._layout.root).mkdir(parents=True, exist_ok=True)
            for directory in self._layout.directories():
                _path(directory).mkdir(exist_ok=True)

    def names(self, parent: Place) -> list[str]:
        """Directories of plans and units; nothing where a read-only copy lost the parent because it was empty."""
        where = _path(parent)
        entries = where.iterdir() if parent == self._layout.epochs or where.is_dir() else iter(())
        plan_of = (lambda name: name) if parent == self._layout.epochs else shard_plan
        return sorted(path.name for path in entries if is_plan_name(plan_of(path.name)))

    def published(self, directory: Place) -> bool:
        """True when the directory is there: it appears whole."""
        return _path(directory).is_dir()

    def closed(self, directory: Place) -> bool:
        """Never: the lock on the plan closes it."""
        _ = directory
        return False

    def close(self, directories: Iterable[Place]) -> list[Place]:
        """Nothing to do: the seal holds the lock on the plan."""
        _ = directories
        return []

    def stage(self, name: str) -> Staging:
        """A directory in `_staging/`."""
        return Staging(make_staging(self._staging, name))

    def unstage(self, staging: Staging) -> None:
        """Remove it, if no rename published it."""
        remove_tree(staging.path)

    def publish_directory(self, staging: Staging, target: Place, *, last: Callable[[], None] | None = None) -> bool:
        """By one rename."""
        if last is not None:
            last()
        return publish_directory(staging.path, _path(target))

    def publish_file(self, target: Place, data: bytes) -> bool:
        """By one link."""
        return publish_file(self._staging, _path(target), data)

    @contextlib.contextmanager
    def lock(self, plan_file: Place, mode: Literal["shared", "exclusive"]) -> Iterator[None]:
        """Hold the plan file's lock: shared to publish a shard, exclusive to seal. A killed process lets go of it."""
        handle = os.open(_path(plan_file), os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if mode == "exclusive" else fcntl.LOCK_SH)
            yield
        finally:
            os.close(handle)

    def drop(self, directory: Place) -> None:
        """Rename it into `_staging/`, then empty it there."""
        where = _path(directory)
        grave = make_staging(self._staging, f"gc-{where.name}")
        with contextlib.suppress(FileNotFoundError):  # another gc took it
            os.rename(where, grave / where.name)  # noqa: PTH104 - the one call that hides the rows, all at once
        remove_tree(grave)

    def leftovers(self) -> Iterator[Leftover]:
        """What lies in `_staging/`."""
        for path in sorted(self._staging.iterdir()) if self._staging.is_dir() else []:
            newest = max((found.st_mtime for found in _facts(path)), default=math.inf)
            yield Leftover(path.name, self.size(path), newest, lambda path=path: _remove(path))  # type: ignore[misc]

    def unfinished(self, name: str) -> bool:
        """Never: a directory is published whole."""
        _ = name
        return False

    def size(self, directory: Place) -> int:
        """Bytes of the files below it."""
        return sum(found.st_size for found in _facts(_path(directory)) if stat.S_ISREG(found.st_mode))


def _path(where: Place) -> Path:
    if not isinstance(where, Path):
        msg = f"{where} is not on disk"
        raise TypeError(msg)
    return where


def _remove(path: Path) -> None:
    remove_tree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _facts(path: Path) -> Iterator[os.stat_result]:
    """Facts of a path and of all below it; what another process removes meanwhile is left out."""
    with contextlib.suppress(FileNotFoundError):
        for each in [path, *path.rglob("*")]:
            with contextlib.suppress(FileNotFoundError):
                yield each.stat()
