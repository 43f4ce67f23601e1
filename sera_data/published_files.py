"""The files of a bucket as fsspec shows them, for DuckDB and PyArrow.

Invariant: published files never change, so what a connection was told of one (size, time, a small file's bytes) stays
true for it. DuckDB opens a file again for every query and view that names it; without this each would be a request.

Run: ``connection.register_filesystem(PublishedFiles())``; ``filesystem()`` asks anew each time, for hashes.
"""

from __future__ import annotations

import io
from datetime import datetime
from functools import cache
from typing import Any

from obstore.fsspec import FsspecStore

from sera_data.bucket import connection_options

SMALL_BYTES, HELD_BYTES = 2**20, 2**28
"""Files up to the first size are fetched whole and held, up to the second size together; larger ones go by range."""


class PublishedFiles(FsspecStore):
    """All buckets; remembers what it was told of each file."""

    cachable = False  # fsspec would hand an old one to a new connection

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__("s3", **connection_options())
        self._known: dict[str, dict[str, Any]] = {}
        self._held: dict[str, bytes] = {}

    async def _info(self, path: str, **how: Any) -> dict[str, Any]:
        if path not in self._known:
            self._known[path] = await super()._info(path, **how)
        return self._known[path]

    def _open(self, path: str, mode: str = "rb", *rest: Any, **how: Any) -> Any:
        if mode != "rb" or self.info(path)["size"] > SMALL_BYTES:
            return super()._open(path, mode, *rest, **how)
        data = self._held.get(path)
        if data is None:
            data = self._held[path] = self.cat_file(path)
            while sum(map(len, list(self._held.values()))) > HELD_BYTES:
                self._held.pop(next(iter(self._held)), None)
        return io.BytesIO(data)

    def modified(self, path: str) -> datetime:
        """When the file was put, by the server's clock."""
        return self.info(path)["last_modified"]


@cache
def filesystem() -> FsspecStore:
    """All buckets, asked anew each time."""
    made: Any = FsspecStore
    return made("s3", skip_instance_cache=True, **connection_options())
