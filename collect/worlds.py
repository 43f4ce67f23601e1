"""The registered worlds, through the entry-point group `sera.worlds`.

Invariant: a world is opened by name and profile; an unknown one is refused with the names that exist.
"""

from __future__ import annotations

import difflib
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from collect.world import World
from sera_data.errors import UsageError

GROUP = "sera.worlds"


def registered() -> dict[str, EntryPoint]:
    """Worlds by name."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def open_world(name: str, *, profile: str) -> World[Any]:
    """The world under a profile; UsageError for an unknown name or profile."""
    table = registered()
    if name not in table:
        near = difflib.get_close_matches(name, table, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "'sera worlds' lists them"
        msg = f"no world {name!r}; allowed: {', '.join(table)}"
        raise UsageError(msg, hint=hint)
    make = table[name].load()
    try:
        world: World[Any] = make(profile=profile)
    except ValueError as error:
        msg = f"world {name!r}: {error}"
        raise UsageError(msg) from None
    return world
