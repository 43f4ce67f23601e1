"""Which stores this release reads and writes.

Invariant: a store, shard or seal of another major version is refused before a row of it is read. Minor versions only
add nullable columns; readers fill them with nulls.
"""

from __future__ import annotations

from schemas.version import SCHEMA_VERSION, major
from sera_data.errors import StoreError
from sera_data.place import Place


def require_readable(version: object, *, current: str = SCHEMA_VERSION, what: str, path: Place) -> None:
    """Refuse a version that is not of our major; the message says which release reads it."""
    try:
        theirs = major(version) if isinstance(version, str) else None
    except ValueError:
        theirs = None
    ours = major(current)
    if theirs is None:
        msg = f"{path}: {what} {version!r} is not of the form MAJOR.MINOR, for example {current!r}"
        raise StoreError(msg, hint="the file is damaged, restore it from a copy")
    if theirs > ours:
        msg = f"{path}: {what} {version} is newer than this release, which reads {ours}.x"
        raise StoreError(msg, hint=f"install a release of sera-data that reads {theirs}.x: pip install -U sera-data")
    if theirs < ours:
        msg = f"{path}: {what} {version} is older than this release, which reads {ours}.x"
        raise StoreError(msg, hint=f"migrate the store with the last release that reads {theirs}.x")
