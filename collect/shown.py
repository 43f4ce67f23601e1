"""The value of a cell's last expression as text, as a notebook shows it.

Invariant: the work is bounded by MAX_CHARS, whatever the value: one list may stand in a value ten billion times,
because what a cell built of a few shared lists arrives as shared lists, and `repr` would write each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MAX_CHARS = 100_000
MAX_DEPTH = 60
DEEPER = "..."
BRACKETS: Mapping[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


def shown(value: Any) -> str:
    """The value as `repr` writes it (a text as it is), cut with a marker after MAX_CHARS or below 60 levels."""
    if isinstance(value, str):
        return value
    text = _Text()
    try:
        text.write(value, 0)
    except _Full:
        return "".join(text.pieces)[:MAX_CHARS] + f"\n[a value of more than {MAX_CHARS} characters]"
    return "".join(text.pieces)


class _Full(Exception):
    """The text is as long as it may be."""


class _Text:
    """A text in progress. Every value adds a character at least, so that the limit ends any walk."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._room = MAX_CHARS

    def write(self, value: Any, depth: int) -> None:
        """Add a value; raises _Full."""
        if depth > MAX_DEPTH:
            self._add(DEEPER)
        elif type(value) in BRACKETS and (value or type(value) in (list, tuple)):
            opening, closing = BRACKETS[type(value)]
            single = "," if type(value) is tuple and len(value) == 1 else ""
            self._all(opening, (("", item) for item in value), single + closing, depth)
        elif type(value) is dict:
            self._mapping(value, depth)
        elif isinstance(value, BaseException):
            self._all(f"{type(value).__name__}(", (("", item) for item in value.args), ")", depth)
        elif isinstance(getattr(value, "attributes", None), dict):  # an object of one of the cell's own classes
            parts = ((f"{name}=", item) for name, item in value.attributes.items())
            self._all(f"{value.name}(", parts, ")", depth)
        else:
            self._add(_repr(value))

    def _mapping(self, value: dict[Any, Any], depth: int) -> None:
        self._add("{")
        for number, (name, item) in enumerate(value.items()):
            self._add(", " if number else "")
            self.write(name, depth + 1)
            self._add(": ")
            self.write(item, depth + 1)
        self._add("}")

    def _all(self, opening: str, parts: Iterable[tuple[str, Any]], closing: str, depth: int) -> None:
        self._add(opening)
        for number, (name, item) in enumerate(parts):
            self._add((", " if number else "") + name)
            self.write(item, depth + 1)
        self._add(closing)

    def _add(self, piece: str) -> None:
        self.pieces.append(piece)
        self._room -= len(piece)
        if self._room < 0:
            raise _Full


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except ValueError as error:  # a number of too many digits
        return f"[a value that cannot be shown: {error}]"
