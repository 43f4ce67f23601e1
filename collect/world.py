"""What a world is: pure transition functions over a small immutable state.

Invariant: no function mutates its input; a state is fully described by `dump(state)`, so that a branch can be
replayed from its parent state and its actions. Worlds register under the entry-point group `sera.worlds`.
Several agents may share a state: the runner lets each `enter` before its first turn and `leave` when it returns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

Fork = Literal["pure", "snapshot", "replay", "none"]
Feedback = Literal["ok", "rejected", "info", "success", "failure", "exhausted"]
End = Literal["success", "failure", "exhausted"]
GoalKind = Literal["targets", "text"]
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Task:
    """A root problem; mirrors the `tasks` table (see schemas/tasks.py for each field)."""

    task_id: str
    world: str
    profile: str
    split: str
    difficulty: str
    goal: str
    spec: Mapping[str, Any]
    family: str | None = None
    seed: int | None = None
    upstream_id: str | None = None


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent as the world sees it: its node id, depth, typed targets and the state it started from."""

    node_id: str
    depth: int
    targets: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Action:
    """A validated call: tool name and plain JSON arguments."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """What happened: ok, the text returned to the agent, and the state change as plain JSON (None = no change).

    feedback: ok (it was done), rejected, info (a look-up), or how this action ended the world for everybody;
    None for what is no action of a world (a launch, a reply that did not parse).
    """

    ok: bool
    result: str
    delta: Mapping[str, Any] | None = None
    feedback: Feedback | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A program's verdict on a node and what it rests on."""

    success: bool
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """Documentation of one tool for the agent's prompt: name, JSON example, one-sentence meaning.

    parameters: order in which a cell of code may give the arguments by position; () = the order of the example.
    """

    name: str
    example: str
    doc: str
    parameters: tuple[str, ...] = ()

    def positions(self) -> tuple[str, ...]:
        """Names of the arguments by position."""
        return self.parameters or tuple(name for name in json.loads(self.example) if name != "tool")


class World(Protocol, Generic[S]):
    """A registered world. `version` names the label checker; `fork` declares how branches are made.

    goal_kind: `targets` (a launch names typed targets) or `text` (a launch's raw targets are
    {"goal": text, "max_steps": integer or None}, and `check_targets` adds a predicate where the text names one).
    """

    name: str
    profile: str
    version: str
    fork: Fork
    goal_kind: GoalKind

    def reset(self, task: Task) -> S:
        """Start state of a task; raises ValueError for a spec that is not one of this world."""

    def root_targets(self, task: Task) -> Mapping[str, Any] | None:
        """Typed targets of the root, or None."""

    def enter(self, state: S, agent: Agent, parent: Agent | None) -> S:
        """The state with a new agent in it: a child starts where its parent is, the root at the world's start."""

    def leave(self, state: S, agent: Agent) -> S:
        """The state without an agent that has returned."""

    def over(self, state: S) -> End | None:
        """How the world has ended for everybody, or None while it goes on."""

    def observe(self, state: S, agent: Agent) -> str:
        """What the first message shows of the state (compact JSON for TextCraft: the inventory)."""

    def apply(self, state: S, agent: Agent, action: Action) -> tuple[S, Event]:
        """One action. A refused action returns the same state and an Event with ok False."""

    def check_targets(self, state: S, raw: Any) -> Mapping[str, Any]:
        """Validated targets of a launch from `state`; raises ValueError with the reason (unknown, zero, ...).

        The state says which items exist: tasks of one job may come from many generated worlds.
        """

    def goal(self, targets: Mapping[str, Any]) -> str:
        """Goal in words for typed targets."""

    def verdict(
        self,
        start: S,
        end: S,
        targets: Mapping[str, Any] | None,
        *,
        changes: Sequence[Mapping[str, Any]] | None = None,
    ) -> Verdict | None:
        """Program label of an episode that explicitly finished, or None when the goal is not checkable.

        changes: deltas of the accepted actions of the node and its committed descendants, in order, so that a child
        is judged on its own state change even when siblings worked in between; None = judge by start and end.
        """

    def difference(self, start: S, end: S, *, changes: Sequence[Mapping[str, Any]] | None = None) -> Mapping[str, Any]:
        """Net state change as plain JSON, shown to scorers; never a reward or a label.

        changes: as in `verdict`; given when others worked on the same state in between, then only these count.
        """

    def dump(self, state: S) -> str:
        """The state as canonical JSON."""

    def load(self, text: str) -> S:
        """Inverse of dump."""

    def tools(self) -> tuple[Tool, ...]:
        """Tools for the prompt, without delegate and finish."""
