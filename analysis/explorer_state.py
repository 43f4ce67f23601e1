"""What changed between two world states, as rows to show.

Invariant: a state is any JSON; lists of the same length are compared place by place, all else that differs as a whole.
Text that is no JSON is compared as one value. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ABSENT = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One place of the state; `before` and `after` are short JSON, or None where there was nothing."""

    place: str
    before: str | None
    after: str | None

    @property
    def text(self) -> str:
        """`oak_log 3 → 1`, with the difference where both are numbers."""
        if self.before is None:
            return f"{self.place}: + {self.after}"
        if self.after is None:
            return f"{self.place}: − {self.before}"
        return f"{self.place}: {self.before} → {self.after}"


def state_changes(start: str | None, end: str | None) -> list[Change] | None:
    """Changes from start to end; None when either state is missing, [] when nothing changed."""
    if start is None or end is None:
        return None
    return list(_walk(_parsed(start), _parsed(end), ""))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _walk(before: Any, after: Any, place: str) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from _walk(before.get(key, ABSENT), after.get(key, ABSENT), f"{place}.{key}" if place else str(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _walk(old, new, f"{place}[{index}]")
    elif before is ABSENT or after is ABSENT or before != after:
        yield Change(place or "state", _short(before), _short(after))


def _short(value: Any) -> str | None:
    if value is ABSENT:
        return None
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}…"
