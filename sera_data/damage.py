"""Whose fault is a read that failed: the query's or a file's?

Invariant: a file is at fault when it is missing or its sha256 is not the one that its seal or commit recorded; readers
report damage in many words (some name no file), so nothing is guessed from theirs. Hashing reads every file of the
view, so ask only after a failure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sera_data.canonical import sha256_file
from sera_data.errors import StoreError
from sera_data.place import place

if TYPE_CHECKING:
    import duckdb

    from sera_data.listing import Listing

VARIABLE = "sera_files"
"""DuckDB variable in which a connection of ours keeps what its views read."""


def remember(connection: duckdb.DuckDBPyConnection, listing: Listing) -> None:
    """Let the connection know its files, so that `require_sound` can be asked with nothing but the connection."""
    text = json.dumps(_recorded(listing)).replace("'", "''")
    connection.execute(f"set variable {VARIABLE} = '{text}'")


def require_sound(connection: duckdb.DuckDBPyConnection) -> None:
    """StoreError when a file that the connection's views read is damaged; call it when a query failed."""
    ((text,),) = connection.sql(f"select getvariable('{VARIABLE}')").fetchall()
    _require(json.loads(text or "[]"))


@contextmanager
def blaming(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """A query that fails inside the block is a StoreError where a file of the connection's views is damaged."""
    import duckdb

    try:
        yield
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        require_sound(connection)
        raise


def require_sound_files(listing: Listing) -> None:
    """StoreError when a file of the listing is damaged."""
    _require(_recorded(listing))


def _recorded(listing: Listing) -> list[tuple[str, str, str]]:
    from sera_data.listing import repair

    return [
        (str(path), sha256, repair(source))
        for source in listing.sources
        for (_, path, _, _), sha256 in zip(source.files, source.hashes, strict=True)
    ]


def _require(recorded: Iterable[tuple[str, str, str]]) -> None:
    for name, sha256, hint in recorded:
        path = place(name)
        if not path.is_file():
            msg = f"{path} is missing"
            raise StoreError(msg, hint=f"open the store again if it was open for an hour; else {hint}")
        if sha256_file(path) != sha256:
            msg = f"{path} is damaged: its sha256 is not the recorded {sha256[:12]}"
            raise StoreError(msg, hint=hint)
