"""Where the things of a store lie: a path on disk, or an object under `s3://bucket/key`.

Invariant: an ObjectPath answers what a `pathlib.Path` answers to a reader (names, children, bytes, size, time), and
like it holds nothing but its name. It does not write: that is for the verbs in `objects.py`.

Run: ``place("s3://bucket/store") / "store.json"``, ``place("runs/demo/store")``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, cast

from sera_data.errors import UsageError

if TYPE_CHECKING:
    from sera_data.bucket import Bucket

SCHEME = "s3://"
_OBJECT = re.compile(r"s3:/{1,2}(?P<bucket>[^/]+)(?:/(?P<key>.*))?\Z", re.DOTALL)
_OTHER = re.compile(r"(?:s3|gs|gcs|az|abfs|abfss|hdfs|hf|https?|file)(?=:/)")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,62}\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Facts:
    """What `stat` says of an object: bytes, and seconds since 1970 by the server's clock."""

    st_size: int
    st_mtime: float


@dataclass(frozen=True, slots=True, order=True)
class ObjectPath:
    """One name in a bucket; a "directory" is a name that others begin with."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}".rstrip("/")

    def __truediv__(self, name: str | PurePosixPath) -> ObjectPath:
        return ObjectPath(self.bucket, f"{self.key}/{name}".strip("/"))

    @property
    def name(self) -> str:
        """The last part of the key, or the bucket."""
        return self.key.rpartition("/")[2] or self.bucket

    @property
    def stem(self) -> str:
        """The name without its last suffix."""
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        """The last suffix of the name, with its dot."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> ObjectPath:
        """The name that this one lies below."""
        return ObjectPath(self.bucket, self.key.rpartition("/")[0])

    def resolve(self) -> ObjectPath:
        """Itself: a URL is absolute."""
        return self

    def is_file(self) -> bool:
        """True when there is an object of this name."""
        return bool(self.key) and self._store().head(self.key) is not None

    def is_dir(self) -> bool:
        """True when there are objects below this name."""
        return bool(self._store().children(self.key))

    def exists(self) -> bool:
        """True when there is an object of this name, or one below it."""
        return self.is_file() or self.is_dir()

    def stat(self) -> Facts:
        """Size and time; FileNotFoundError where there is no object."""
        fact = self._store().head(self.key)
        if fact is None:
            raise FileNotFoundError(2, "no such object", str(self))
        return Facts(fact.size, fact.modified)

    def iterdir(self) -> Iterator[ObjectPath]:
        """The names one step below this one, sorted."""
        for key in self._store().children(self.key):
            yield ObjectPath(self.bucket, key)

    def glob(self, pattern: str) -> Iterator[ObjectPath]:
        """The names one step below that match, sorted."""
        return (path for path in self.iterdir() if fnmatchcase(path.name, pattern))

    def read_bytes(self) -> bytes:
        """The object; FileNotFoundError where there is none."""
        found = self._store().get(self.key)
        if found is None:
            raise FileNotFoundError(2, "no such object", str(self))
        return found

    def read_text(self, encoding: str = "utf-8") -> str:
        """The object as text."""
        return self.read_bytes().decode(encoding)

    def open(self, mode: str = "rb") -> BufferedIOBase:
        """A seekable reader, which fetches the ranges that are read."""
        from sera_data.published_files import filesystem

        if mode != "rb":
            msg = f"{self} can only be opened to read bytes ('rb'), got {mode!r}"
            raise ValueError(msg)
        return cast("BufferedIOBase", filesystem().open(f"{self.bucket}/{self.key}", "rb"))

    def _store(self) -> Bucket:
        from sera_data.bucket import bucket

        return bucket(self.bucket)


Place: TypeAlias = Path | ObjectPath


def place(name: str | Path | ObjectPath) -> Place:
    """The place of that name: `s3://bucket/prefix` is in object storage, anything else on disk.

    A URL that went through `pathlib` has lost a slash, so `s3:/bucket/prefix` means the same.
    """
    if isinstance(name, ObjectPath):
        return name
    found = _OBJECT.match(str(name))
    if found is not None and _BUCKET.match(found["bucket"]):
        parts = [part for part in (found["key"] or "").split("/") if part]
        if not {".", ".."} & set(parts):
            return ObjectPath(found["bucket"], "/".join(parts))
    if _OTHER.match(str(name)):
        msg = f"got {str(name)!r}; allowed are a directory and s3://BUCKET/PREFIX"
        raise UsageError(msg, hint="other object stores that speak S3: s3://... and AWS_ENDPOINT_URL")
    return Path(name)


def in_objects(where: Place) -> TypeGuard[ObjectPath]:
    """True for a place in object storage."""
    return isinstance(where, ObjectPath)


def file_beside(where: Place, name: str) -> Path:
    """A file on disk beside a store: in its parent directory, or in this one when the store is in object storage."""
    return where.parent / name if isinstance(where, Path) else Path(name)


def sizes(paths: Iterable[Place]) -> dict[Place, int | None]:
    """Bytes of each file, None where it is missing; objects are listed by their grandparent, not asked one by one."""
    known: dict[ObjectPath, dict[str, int]] = {}
    found: dict[Place, int | None] = {}
    for path in paths:
        if in_objects(path):
            root = path.parent.parent
            if root not in known:
                known[root] = {fact.key: fact.size for fact in root._store().listing(root.key)}
            found[path] = known[root].get(path.key)
        else:
            try:
                found[path] = path.stat().st_size
            except FileNotFoundError:
                found[path] = None
    return found
