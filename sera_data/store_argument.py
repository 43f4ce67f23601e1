"""The options that the commands on a store share: STORE and --json.

Invariant: nothing heavy is imported before a command runs.

Run: ``from sera_data.store_argument import Json, StorePath, open_path``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sera_data.place import place

if TYPE_CHECKING:
    from sera_data.store import Store

StorePath = Annotated[
    Path,  # or an ObjectPath, which reads like one: Typer wants one type
    typer.Argument(parser=place, metavar="STORE", help="Directory that holds store.json, or s3://BUCKET/PREFIX."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def open_path(path: Path) -> Store:
    """The store at this path; a StoreError says what is there instead."""
    from sera_data.store import open_store

    return open_store(path)
