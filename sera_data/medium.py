"""The verbs that a store needs of the thing it lies on: one small interface, two implementations.

Invariant: `publish_directory` and `publish_file` make something visible all at once, and only under a name that is
free; readers see the old state or the new one. `Disk` does it by rename, `Objects` by a conditional put that comes
last. Nothing else in the package knows which of the two it is on.

Run: ``medium(layout).publish_file(layout.store_file, b"{}")``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from sera_data.place import Place, in_objects

if TYPE_CHECKING:
    from sera_data.layout import Layout


@dataclass(frozen=True, slots=True)
class Staging:
    """A private directory on this machine, in which a shard or a seal is written before it is published.

    mark: what its published file names carry, so that two writers of one directory never mix their files ("" on disk,
    where the whole directory is renamed).
    """

    path: Path
    mark: str = ""

    def file_name(self, name: str) -> str:
        """The name of a data file: `turns.parquet`, or `turns.3f2a9c1d0b7e.parquet` with a mark."""
        stem, dot, suffix = name.rpartition(".")
        return f"{stem}.{self.mark}{dot}{suffix}" if self.mark else name


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a dead or beaten writer left: bytes, time of its newest file (seconds since 1970), how to remove it."""

    name: str
    bytes: int
    newest: float
    remove: Callable[[], None]


class Medium(Protocol):
    """What a store lies on."""

    def prepare(self) -> None:
        """Make what a new store needs before its first file."""

    def names(self, parent: Place) -> list[str]:
        """Names of the published directories below `shards/` or `epochs/`, sorted."""

    def published(self, directory: Place) -> bool:
        """True when that directory is published."""

    def stage(self, name: str) -> Staging:
        """A new private directory to write in; `name` says for what."""

    def unstage(self, staging: Staging) -> None:
        """Remove a private directory; one that was published by a rename is gone already."""

    def publish_directory(self, staging: Staging, target: Place, *, last: Callable[[], None] | None = None) -> bool:
        """Publish a finished directory under a free name; False when the name is taken.

        `last` runs when only the one deciding call is left; what it raises leaves nothing published.
        """

    def publish_file(self, target: Place, data: bytes) -> bool:
        """Publish a document under a free name; False when the name is taken."""

    def lock(self, plan_file: Place, mode: Literal["shared", "exclusive"]) -> AbstractContextManager[None]:
        """Keep commits and the seal of one plan apart, where the medium has locks."""

    def close(self, directories: Iterable[Place]) -> list[Place]:
        """Make sure that none of these can be published any more; those that are published already are returned."""

    def closed(self, directory: Place) -> bool:
        """True when `close` took that name."""

    def drop(self, directory: Place) -> None:
        """Hide a published directory by one call, then remove what is in it."""

    def leftovers(self) -> Iterator[Leftover]:
        """What no reader sees and nobody finished, or finished too late."""

    def unfinished(self, name: str) -> bool:
        """True for a file in a published directory that another, dead writer may have left: gc takes it."""

    def size(self, directory: Place) -> int:
        """Bytes of what is in a directory."""


def medium(layout: Layout) -> Medium:
    """The verbs for the place where this store lies."""
    if in_objects(layout.root):
        from sera_data.objects import Objects

        return Objects(layout)
    from sera_data.disk import Disk

    return Disk(layout)
