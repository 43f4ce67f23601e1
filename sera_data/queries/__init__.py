"""Questions about a store as SQL files: costs, and what the exports read.

Invariant: a statement lives in `sera_data/queries/<name>.sql`; Python binds parameters only.

Run: ``connection.sql(query("cost_calls")).pl()``.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def query(name: str) -> str:
    """Text of `sera_data/queries/<name>.sql`."""
    return files("sera_data").joinpath("queries", f"{name}.sql").read_text(encoding="utf-8")
