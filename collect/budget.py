"""Budgets that a tree spends: environments, agents, tokens, time.

Invariant: what a branch off the path spends never changes what the path may spend, except environments of the
reference rule and of best of N, which are counted over the whole tree, first come.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from collect.settings import Budgets


@dataclass(slots=True)
class EnvironmentBudget:
    """The published soft cap: the root's environment is the first; a full group is reserved while below the cap.

    With cap 16 and k 8 the count goes 1, 9, 17: two groups, the second crossing the cap.
    """

    cap: int
    created: int = 1

    def reserve(self, k: int) -> int | None:
        """Environments that existed before the new group of k, or None when the cap is reached."""
        if self.created >= self.cap:
            return None
        before = self.created
        self.created += k
        return before


@dataclass(slots=True)
class ForkBudget:
    """The published hard cap of best of N: a group is reserved only when all of it fits, the root not counted.

    With cap 32 and k 2 there are 16 groups.
    """

    cap: int
    created: int = 0

    def reserve(self, k: int) -> int | None:
        """Environments that existed before the new group of k, or None when it does not fit."""
        if self.created + k > self.cap:
            return None
        before = self.created
        self.created += k
        return before


@dataclass(slots=True)
class AgentLedger:
    """Agents started on one path through the branches; a branch off the path continues with a copy."""

    limit: int | None
    started: int = 1

    def admits(self) -> bool:
        """Whether one more agent may start."""
        return self.limit is None or self.started < self.limit

    def start(self) -> None:
        """Count one more agent."""
        self.started += 1

    def copy(self) -> AgentLedger:
        """An independent ledger with the same count."""
        return AgentLedger(self.limit, self.started)


class Deadline:
    """A point in time that no call may outlive; without seconds it never comes."""

    __slots__ = ("_at",)

    def __init__(self, seconds: float | None) -> None:
        self._at = None if seconds is None else time.monotonic() + seconds

    def remaining(self) -> float | None:
        """Seconds left (0 when passed), or None without a deadline."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())

    def passed(self) -> bool:
        """Whether it has come."""
        return self._at is not None and time.monotonic() >= self._at


def completion_cap(budgets: Budgets, *, max_tokens: int, n_prompt: int | None, n_used: int = 0) -> int:
    """Tokens that the next completion may have; 0 or less = no completion fits any more.

    n_prompt: tokens of the prompt, None when unknown. n_used: completion tokens that the agent has used.
    """
    cap = max_tokens
    if budgets.prompt is not None and n_prompt is not None and n_prompt > budgets.prompt:
        return 0
    if budgets.tokens is not None:
        cap = min(cap, budgets.tokens - n_used)
    if budgets.context is not None and n_prompt is not None:
        cap = min(cap, budgets.context - n_prompt)
    return cap
