"""What a long command shows while it works, on stderr: a bar on a terminal, elsewhere plain lines.

Invariant: it only watches; nothing that is stored depends on it. In a log file there is one line at most every
`LINE_EVERY_S` seconds, and one at the end.

Run: subclasses say what they count: `JobProgress`, `LabelProgress`, `LearnProgress`.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LINE_EVERY_S = 15.0


class ProgressDisplay:
    """Counts up to `total` things called `unit`."""

    def __init__(self, total: int, *, label: str, unit: str, quiet: bool = False) -> None:
        self.total, self.label, self.unit, self.quiet = total, label, unit, quiet
        self.started = self._last_line = time.monotonic()
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn(f"{unit}  {{task.fields[note]}}"),
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

    def advance(self, note: str) -> None:
        """One more is done; the bar shows the note."""
        self._bar.update(self._task, advance=1, note=note)

    def line(self, done: int, note: str) -> None:
        """The plain line of a log file, when it is time for one."""
        now = time.monotonic()
        if self._on_terminal() or (now - self._last_line < LINE_EVERY_S and done < self.total):
            return
        self._last_line = now
        self.say(f"{self.label}: {done}/{self.total} {self.unit}  {note}")

    def say(self, text: str) -> None:
        """One line, unless quiet."""
        if not self.quiet:
            self._console.print(text, highlight=False, soft_wrap=True)

    def _on_terminal(self) -> bool:
        return self._console.is_terminal
