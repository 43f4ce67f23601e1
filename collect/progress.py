"""What a job shows while it runs: trees, success, tokens per second, on stderr.

Invariant: it only watches; nothing that is stored depends on it. On a terminal it is a bar, elsewhere (a log file)
one plain line at most every `LINE_EVERY_S` seconds.
"""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from collect.services import RootSummary

LINE_EVERY_S = 15.0


class JobProgress:
    """Counts finished trees of this process and shows them."""

    def __init__(self, total: int, *, label: str, quiet: bool = False) -> None:
        self.total = total
        self.label = label
        self.quiet = quiet
        self.outcomes: Counter[str] = Counter()
        self.successes: Counter[bool] = Counter()
        self.tokens = 0
        self.started = self._last_line = time.monotonic()
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("trees  {task.fields[note]}"),
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

    def tree_done(self, root: RootSummary) -> None:
        """Count one finished tree."""
        self.outcomes[root.outcome] += 1
        if root.success is not None:
            self.successes[root.success] += 1
        self.tokens += root.n_prompt_tokens + root.n_completion_tokens
        self._bar.update(self._task, advance=1, note=self.note())
        self._line()

    def note(self) -> str:
        """Success so far, tokens per second, infrastructure errors."""
        parts = []
        if self.successes:
            parts.append(f"success {self.successes[True] / self.successes.total():.2f}")
        if self.tokens:
            parts.append(f"{self.tokens / max(time.monotonic() - self.started, 1e-9):,.0f} tokens/s")
        if self.outcomes["infra_error"]:
            parts.append(f"{self.outcomes['infra_error']} infrastructure errors")
        return "  ".join(parts)

    def _line(self) -> None:
        now = time.monotonic()
        done = self.outcomes.total()
        if self.quiet or self._console.is_terminal or (now - self._last_line < LINE_EVERY_S and done < self.total):
            return
        self._last_line = now
        self._console.print(f"{self.label}: {done}/{self.total} trees  {self.note()}", highlight=False, soft_wrap=True)
