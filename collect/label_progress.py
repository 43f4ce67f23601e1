"""What a label run shows while it works: votes, success, invalid votes, tokens, on stderr.

Invariant: it only watches. On a terminal it is a bar, elsewhere one plain line at most every `LINE_EVERY_S` seconds.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from collect.records import Row

LINE_EVERY_S = 15.0


class LabelProgress:
    """Counts the votes of this process and shows them."""

    def __init__(self, total: int, *, label: str, quiet: bool = False) -> None:
        self.total, self.label, self.quiet = total, label, quiet
        self.done = self.valid = self.invalid = self.tokens = 0
        self.successes = 0.0
        self._last_line = time.monotonic()
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("votes  {task.fields[note]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task(label, total=total, note="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def label_done(self, row: Row) -> None:
        """Count one vote."""
        self.done += 1
        self.valid += row["valid"]
        self.invalid += not row["valid"]
        self.successes += row["value"] or 0.0
        self.tokens += (row["prompt_tokens"] or 0) + (row["completion_tokens"] or 0)
        self._bar.update(self._task, advance=1, note=self.note())
        now = time.monotonic()
        if self.quiet or self._console.is_terminal or (now - self._last_line < LINE_EVERY_S and self.done < self.total):
            return
        self._last_line = now
        self._console.print(f"{self.label}: {self.done}/{self.total} votes  {self.note()}", highlight=False)

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
