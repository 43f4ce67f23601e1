"""Values from the sandbox as plain JSON values of bounded size.

Invariant: whatever a cell passes, what comes out is JSON of at most MAX_NODES values and MAX_CHARS characters, without
a number that JSON or the store cannot hold, and equal inputs give equal outputs.
"""

from __future__ import annotations

import math
from typing import Any

from collect.surrogates import mended

MAX_NODES = 20_000
MAX_CHARS = 100_000
MAX_DEPTH = 20
MAX_INTEGER = 2**63 - 1


class TooLarge(Exception):
    """The value is larger than what a call may carry; the message says in what way."""


def plain(value: Any) -> Any:
    """The value with tuples as lists; mappings with names that are no texts become lists of pairs.

    Numbers that JSON cannot hold and values of other kinds become short texts, which every tool refuses in its own
    words. Raises TooLarge.
    """
    return _Copy().of(value, 0)


class _Copy:
    """One copy in progress, with what is left of its limits."""

    def __init__(self) -> None:
        self._nodes, self._chars = MAX_NODES, MAX_CHARS

    def of(self, value: Any, depth: int) -> Any:
        self._nodes -= 1
        if self._nodes < 0:
            msg = f"more than {MAX_NODES} values"
            raise TooLarge(msg)
        if depth > MAX_DEPTH:
            msg = f"nested deeper than {MAX_DEPTH}"
            raise TooLarge(msg)
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if abs(value) <= MAX_INTEGER else f"an integer of {value.bit_length()} bits"
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, (list, tuple)):
            return [self.of(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return self._mapping(value, depth)
        return f"a value of type {type(value).__name__}"

    def _mapping(self, value: dict[Any, Any], depth: int) -> Any:
        if all(isinstance(name, str) for name in value):
            return {self._text(name): self.of(item, depth + 1) for name, item in value.items()}
        return [[self.of(name, depth + 1), self.of(item, depth + 1)] for name, item in value.items()]

    def _text(self, value: str) -> str:
        self._chars -= len(value)
        if self._chars < 0:
            msg = f"longer than {MAX_CHARS} characters"
            raise TooLarge(msg)
        return mended(value)
