"""What a dialect is: how replies become decisions and calls become text; and the one place that opens them by name.

Invariant: `decide` never raises and never executes anything; what it cannot read is a Decision of kind `invalid` with
a reason that the agent can act on. A dialect's own libraries are imported only when it is opened.

Use: ``open_dialect("json").decide(text, tools=("craft",))``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any, Literal, Protocol, get_args

from collect.decision import Decision
from sera_data.errors import UsageError

DialectName = Literal["json", "blocks", "code"]
DIALECTS: tuple[str, ...] = get_args(DialectName)
CLASSES: Mapping[str, str] = {
    "json": "collect.dialect_json:JsonDialect",
    "blocks": "collect.dialect_blocks:BlocksDialect",
    "code": "collect.dialect_code:CodeDialect",
}
DEFAULT_DIALECTS: tuple[str, ...] = ("json",)


class Dialect(Protocol):
    """Reads and writes the replies of agents. `name` is stored with the run's configuration."""

    name: str

    def decide(self, text: str, *, tools: Collection[str]) -> Decision:
        """The decision in a reply; `tools` names the world's tools (delegate and finish are always known)."""

    def write(self, tool: str, arguments: Mapping[str, Any] | None = None) -> str:
        """The canonical text of a call, which `decide` reads back."""


def open_dialect(name: str) -> Dialect:
    """The dialect of a name; UsageError for an unknown one."""
    if name not in CLASSES:
        msg = f"no dialect {name!r}; allowed: {', '.join(DIALECTS)}"
        raise UsageError(msg, hint="dialect: auto takes the world's own")
    module, _, attribute = CLASSES[name].partition(":")
    dialect: Dialect = getattr(import_module(module), attribute)()
    return dialect


def dialect_for(world: Any, asked: str) -> Dialect:
    """The dialect asked for, or with `auto` the world's own (the first of its `dialects`).

    A world that does not say which dialects it is written for speaks json. UsageError for a dialect that the world
    has no words for.
    """
    spoken = tuple(getattr(world, "dialects", DEFAULT_DIALECTS))
    name = spoken[0] if asked == "auto" else asked
    dialect = open_dialect(name)
    if name not in spoken:
        msg = f"world {world.name!r} is not played in the dialect {name!r}; allowed: {', '.join(spoken)}"
        raise UsageError(msg, hint="--set dialect=auto takes the world's own")
    return dialect
