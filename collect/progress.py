"""What a job shows while it runs: trees, success, tokens per second, on stderr.

Invariant: it only watches; nothing that is stored depends on it. On a terminal it is a bar, elsewhere (a log file)
one plain line at most every `LINE_EVERY_S` seconds.
"""

from __future__ import annotations

import time
from collections import Counter

from collect.progress_display import ProgressDisplay
from collect.services import RootSummary


class JobProgress(ProgressDisplay):
    """Counts finished trees of this process and shows them."""

    def __init__(self, total: int, *, label: str, quiet: bool = False) -> None:
        super().__init__(total, label=label, unit="trees", quiet=quiet)
        self.outcomes: Counter[str] = Counter()
        self.successes: Counter[bool] = Counter()
        self.tokens = 0

    def tree_done(self, root: RootSummary) -> None:
        """Count one finished tree."""
        self.outcomes[root.outcome] += 1
        if root.success is not None:
            self.successes[root.success] += 1
        self.tokens += root.n_prompt_tokens + root.n_completion_tokens
        self.advance(self.note())
        self.line(self.outcomes.total(), self.note())

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
