"""The world of imported episodes: nothing is known of it but what was said.

Invariant: it holds no state and applies no action, so imported trees can be judged and never played, forked or
replayed. It has no program verdict, and what an episode changed is unknown: a judge is shown no change.

Run: ``sera label STORE --judge openai:MODEL@URL`` on a store of ``sera data import``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collect.world import Action, Agent, End, Event, Fork, GoalKind, Task, Tool, Verdict

STATE = "{}"


class Imported:
    """Profiles are the forms that `sera data import` reads."""

    name = "imported"
    version = "none"
    fork: Fork = "none"
    goal_kind: GoalKind = "targets"
    profiles = ("chat", "verifiers", "inspect", "trajectory")

    def __init__(self, profile: str = "chat") -> None:
        if profile not in self.profiles:
            msg = f"no profile {profile!r}; allowed: {', '.join(self.profiles)}"
            raise ValueError(msg)
        self.profile = profile

    def reset(self, task: Task) -> str:
        """The only state."""
        return STATE

    def root_targets(self, task: Task) -> Mapping[str, Any] | None:
        """None: goals are words."""
        return None

    def enter(self, state: str, agent: Agent, parent: Agent | None) -> str:
        """The same state."""
        return state

    def leave(self, state: str, agent: Agent) -> str:
        """The same state."""
        return state

    def over(self, state: str) -> End | None:
        """It has ended: the episode was over before it came here, however it ended."""
        return "exhausted"

    def observe(self, state: str, agent: Agent) -> str:
        """Nothing is to be seen."""
        return STATE

    def apply(self, state: str, agent: Agent, action: Action) -> tuple[str, Event]:
        """Refuse every action."""
        return state, Event(ok=False, result="imported episodes cannot be played", feedback="rejected")

    def check_targets(self, state: str, raw: Any) -> Mapping[str, Any]:
        """Refuse every launch."""
        msg = "imported episodes cannot be played"
        raise ValueError(msg)

    def goal(self, targets: Mapping[str, Any]) -> str:
        """There are no typed targets to word."""
        return ""

    def verdict(
        self,
        start: str,
        end: str,
        targets: Mapping[str, Any] | None,
        *,
        changes: Sequence[Mapping[str, Any]] | None = None,
    ) -> Verdict | None:
        """None: the verdict is the one that came with the file."""
        return None

    def difference(
        self, start: str, end: str, *, changes: Sequence[Mapping[str, Any]] | None = None
    ) -> Mapping[str, Any]:
        """Nothing recorded."""
        return {}

    def dump(self, state: str) -> str:
        """The state as JSON."""
        return state

    def load(self, text: str) -> str:
        """Inverse of dump; ValueError for a state of another world."""
        if text != STATE:
            msg = f"an imported episode has no state, got {text[:40]!r}"
            raise ValueError(msg)
        return text

    def tools(self) -> tuple[Tool, ...]:
        """None: nothing can be done here."""
        return ()
