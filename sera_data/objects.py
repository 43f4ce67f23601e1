"""A store in object storage: the verbs by conditional put.

Invariant: a directory is published by its document (`commit.json`, `seal.json`), which is put last, names every file
and goes under a name that is free or not at all. Files carry the mark of their writer, so a dead or beaten writer's
files lie beside the published ones but are in no document, and no reader opens them. An empty document closes a
directory: a seal that goes without a unit puts one in the unit's place, so that the unit cannot be committed while the
seal appears, without any lock.

Run: ``sera_data.open("s3://bucket/store")``.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sera_data.bucket import Bucket, Fact, ObjectFault, bucket
from sera_data.disk import remove_tree
from sera_data.documents import DAMAGED, read_document
from sera_data.errors import StoreError
from sera_data.layout import COMMIT, SEAL
from sera_data.medium import Leftover, Staging
from sera_data.place import ObjectPath, Place

if TYPE_CHECKING:
    from sera_data.layout import Layout

CLOSED = b""
"""The document that closes a directory."""
_MARK = re.compile(r"\.([0-9a-f]{12})\.[a-z]+\Z")


class Objects:
    """The verbs on one store under `s3://`."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._root = _object(layout.root)

    @property
    def _bucket(self) -> Bucket:
        return bucket(self._root.bucket)

    def prepare(self) -> None:
        """Nothing: object storage has no directories."""

    def names(self, parent: Place) -> list[str]:
        """Names below `parent` that have a document with something in it."""
        where = _object(parent)
        document = self._document(where)
        keys = {fact.key for fact in self._bucket.listing(where.key) if fact.size}
        names = {key.removeprefix(f"{where.key}/").partition("/")[0] for key in keys}
        return sorted(name for name in names if f"{where.key}/{name}/{document}" in keys)

    def published(self, directory: Place) -> bool:
        """True when the directory's document is there and not empty."""
        return bool(self._size(_object(directory)))

    def closed(self, directory: Place) -> bool:
        """True when the directory's document is there and empty."""
        return self._size(_object(directory)) == 0

    def stage(self, name: str) -> Staging:
        """A directory of the machine's temporary place (TMPDIR), and a mark that nobody else has."""
        return Staging(Path(tempfile.mkdtemp(prefix=f"sera-{name}-")), uuid.uuid4().hex[:12])

    def unstage(self, staging: Staging) -> None:
        """Remove the local directory."""
        remove_tree(staging.path)

    def publish_directory(self, staging: Staging, target: Place, *, last: Callable[[], None] | None = None) -> bool:
        """Upload the files, see that all have arrived, put the document; take the files back when it was too late."""
        where = _object(target)
        name = self._document(where.parent)
        files = sorted(path for path in staging.path.iterdir() if path.name != name)
        keys = [(where / path.name).key for path in files]
        try:
            for key, path in zip(keys, files, strict=True):
                self._bucket.upload(key, path)
            self._require_arrived(where, {key: path.stat().st_size for key, path in zip(keys, files, strict=True)})
            if last is not None:
                last()
        except StoreError:
            self._take_back(keys)
            raise
        # A fault of the next call leaves the files: the request may have arrived although its answer did not.
        done = self._bucket.create((where / name).key, (staging.path / name).read_bytes())
        if not done:
            self._take_back(keys)
        return done

    def publish_file(self, target: Place, data: bytes) -> bool:
        """Put the document if its name is free."""
        return self._bucket.create(_object(target).key, data)

    @contextlib.contextmanager
    def lock(self, plan_file: Place, mode: Literal["shared", "exclusive"]) -> Iterator[None]:
        """Nothing to hold: the conditional puts decide, and `close` keeps a late commit out of a seal."""
        _ = plan_file, mode
        yield

    def close(self, directories: Iterable[Place]) -> list[Place]:
        """Put an empty document where there is none."""
        taken = []
        for directory in directories:
            document = _object(directory) / self._document(_object(directory).parent)
            if not self._bucket.create(document.key, CLOSED):
                taken.append(directory)
        return taken

    def drop(self, directory: Place) -> None:
        """Remove the document first: from then on nobody lists the directory."""
        where = _object(directory)
        document = (where / self._document(where.parent)).key
        keys = [fact.key for fact in self._bucket.listing(where.key)]
        self._bucket.delete([document, *(key for key in keys if key != document)])

    def unfinished(self, name: str) -> bool:
        """True for names with a writer's mark."""
        return bool(_MARK.search(name))

    def size(self, directory: Place) -> int:
        """Bytes of all objects below the directory."""
        return sum(fact.size for fact in self._bucket.listing(_object(directory).key))

    def leftovers(self) -> Iterator[Leftover]:
        """Files that no document names, by their writer, and closed units of plans that are sealed."""
        sealed = set(self.names(self._layout.epochs))
        for parent in (_object(self._layout.shards), _object(self._layout.epochs)):
            directories: dict[str, list[Fact]] = {}
            for fact in self._bucket.listing(parent.key):
                directories.setdefault(fact.key.removeprefix(f"{parent.key}/").partition("/")[0], []).append(fact)
            for name, facts in directories.items():
                yield from self._left_in(parent / name, facts, sealed)

    def _left_in(self, where: ObjectPath, facts: list[Fact], sealed: set[str]) -> Iterator[Leftover]:
        document = (where / self._document(where.parent)).key
        known = (
            _named(where / self._document(where.parent)) if any(f.key == document and f.size for f in facts) else set()
        )
        writers: dict[str, list[Fact]] = {}
        for fact in facts:
            mark = _MARK.search(fact.key)
            name = fact.key.rpartition("/")[2]
            if fact.key == document and not fact.size and where.name.rpartition(".")[0] in sealed:
                writers["closed"] = [fact]
            elif mark and name not in known:
                writers.setdefault(mark[1], []).append(fact)
        for writer, left in writers.items():
            keys = [fact.key for fact in left]
            yield Leftover(
                f"{where.name}.{writer}",
                sum(fact.size for fact in left),
                max(fact.modified for fact in left),
                lambda keys=keys: self._bucket.delete(keys),  # type: ignore[misc]
            )

    def _require_arrived(self, where: ObjectPath, wanted: dict[str, int]) -> None:
        """A document must never name a file that is not there: gc, or a server, may have lost one meanwhile."""
        found = {fact.key: fact.size for fact in self._bucket.listing(where.key)}
        for key, size in wanted.items():
            if found.get(key) != size:
                reason = f"has {found.get(key, 'no')} of {size} bytes after it was put"
                raise ObjectFault(reason, self._bucket.url(key))

    def _take_back(self, keys: list[str]) -> None:
        """Remove files that no document names; those that resist are left to gc."""
        with contextlib.suppress(ObjectFault):
            self._bucket.delete(keys)

    def _size(self, directory: ObjectPath) -> int | None:
        fact = self._bucket.head((directory / self._document(directory.parent)).key)
        return None if fact is None else fact.size

    def _document(self, parent: ObjectPath) -> str:
        return SEAL if parent == self._layout.epochs else COMMIT


def _object(where: Place) -> ObjectPath:
    if not isinstance(where, ObjectPath):
        msg = f"{where} is not in object storage"
        raise TypeError(msg)
    return where


def _named(document: ObjectPath) -> set[str]:
    """Names of the files that a document records."""
    body = read_document(document, kind="document", hint=DAMAGED)
    if document.name == SEAL:
        return {file["path"] for facts in body["tables"].values() for file in facts["files"]}
    return {file["path"] for file in body["files"].values()}
