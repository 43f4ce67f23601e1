"""What an import or export could not carry over, counted and listed for the person who ran it.

Invariant: nothing is dropped in silence: whatever a format cannot hold is counted here under a sentence.

Run: ``losses.add("images in messages"); print(losses.lines())``.
"""

from __future__ import annotations

from collections import Counter


class Losses:
    """Sentences with how often each happened; 0 = always, by the nature of the format."""

    def __init__(self, *always: str) -> None:
        self._always = list(always)
        self._counts: Counter[str] = Counter()

    def add(self, what: str, n: int = 1) -> None:
        """Count something that was lost."""
        if n:
            self._counts[what] += n

    def lines(self) -> list[str]:
        """What the format never holds, then what happened in this run, commonest first."""
        return [*self._always, *(f"{what}: {n}" for what, n in self._counts.most_common())]
