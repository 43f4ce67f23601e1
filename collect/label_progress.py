"""What a label run shows while it works: votes, success, invalid votes, tokens, on stderr.

Invariant: it only watches. On a terminal it is a bar, elsewhere one plain line at most every `LINE_EVERY_S` seconds.
"""

from __future__ import annotations

from collect.progress_display import ProgressDisplay
from collect.records import Row


class LabelProgress(ProgressDisplay):
    """Counts the votes of this process and shows them."""

    def __init__(self, total: int, *, label: str, quiet: bool = False) -> None:
        super().__init__(total, label=label, unit="votes", quiet=quiet)
        self.done = self.valid = self.invalid = self.tokens = 0
        self.successes = 0.0

    def label_done(self, row: Row) -> None:
        """Count one vote."""
        self.done += 1
        self.valid += row["valid"]
        self.invalid += not row["valid"]
        self.successes += row["value"] or 0.0
        self.tokens += (row["prompt_tokens"] or 0) + (row["completion_tokens"] or 0)
        self.advance(self.note())
        self.line(self.done, self.note())

    def note(self) -> str:
        """Success so far, invalid votes, tokens."""
        parts = []
        if self.valid:
            parts.append(f"success {self.successes / self.valid:.2f}")
        if self.invalid:
            parts.append(f"{self.invalid} invalid")
        if self.tokens:
            parts.append(f"{self.tokens:,} tokens")
        return "  ".join(parts)
