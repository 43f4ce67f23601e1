"""The options that the commands on a store share: STORE and --json.

Invariant: nothing heavy is imported before a command runs.

Run: ``from sera_data.store_argument import Json, StorePath, open_path``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sera_data.store import Store

StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="Directory that holds store.json.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def open_path(path: Path) -> Store:
    """The store at this path; a StoreError says what is there instead."""
    from sera_data.store import open_store

    return open_store(path)
