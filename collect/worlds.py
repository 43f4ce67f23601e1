"""The registered worlds, through the entry-point group `sera.worlds`, and worlds named by import path.

Invariant: a world is opened by name and profile; an unknown one is refused with the names that exist. A name with a
colon, such as `examples.own_world:Maze`, is a class of a module that Python can import from here; nothing of it needs
to be installed, and everything that is stored names it the same way.
"""

from __future__ import annotations

import difflib
import sys
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
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
    if ":" in name:
        return _made(name, _imported(name), profile)
    if name not in table:
        near = difflib.get_close_matches(name, table, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "'sera worlds' lists them"
        msg = f"no world {name!r}; allowed: {', '.join(table)}, or MODULE:CLASS"
        raise UsageError(msg, hint=hint)
    return _made(name, table[name].load(), profile)


def default_profile(name: str) -> str:
    """Profile of a world that is opened without one; UsageError for an unknown name."""
    if ":" in name or name in registered():
        make = _imported(name) if ":" in name else registered()[name].load()
        return str(make().profile)
    open_world(name, profile="")
    return ""


def _imported(name: str) -> Any:
    """The class of an import path; modules of the working directory are found too."""
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        msg = f"world {name!r} cannot be imported: {error}"
        raise UsageError(msg, hint="name it as MODULE:CLASS, from the directory that holds the module") from None


def _made(name: str, make: Any, profile: str) -> World[Any]:
    try:
        world: World[Any] = make(profile=profile)
    except (ValueError, TypeError) as error:
        msg = f"world {name!r}: {error}"
        raise UsageError(msg, hint="a world is made as CLASS(profile=NAME)") from None
    return world
