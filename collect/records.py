"""What a running tree remembers of its nodes and delegations, before rows are made of it.

Invariant: a record belongs to one agent or one launch and is written by that coroutine only; world states are
immutable, so records share them freely.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from collect.budget import AgentLedger, Deadline
from collect.rounds import Seat
from collect.transcript import Transcript
from collect.world import Action, Agent, End, Event, Verdict
from schemas.rubric import Rubric
from schemas.words import Outcome, Scheduling, Selector

if TYPE_CHECKING:
    from collect.crossing import Notebook

Row = dict[str, Any]
Step = tuple[Action | None, Event | None, str]
Deed = Callable[[Any, Any], Any]
"""One thing done to a state, as a function of world and state that does it again."""


@dataclass(slots=True)
class Clock:
    """A Lamport clock: stamps that order events by cause, whatever the scheduling was."""

    value: int = 0

    def tick(self) -> int:
        """Next stamp."""
        self.value += 1
        return self.value

    def join(self, other: int) -> None:
        """Come after another clock's stamp."""
        self.value = max(self.value, other) + 1


@dataclass(slots=True)
class StateCell:
    """The world state of one agent; a change names the revision that it started from.

    deeds: all that was done to it since the task's start, where a world forks by `replay`.
    """

    state: Any
    revision: int = 0
    deeds: tuple[Deed, ...] = ()

    def swap(self, revision: int, state: Any) -> None:
        """Replace the state; refuses when it has changed since `revision` was read."""
        if revision != self.revision:
            msg = f"commit against revision {revision}, the state is at {self.revision}: work would be lost"
            raise RuntimeError(msg)
        self.state = state
        self.revision += 1


@dataclass(slots=True, kw_only=True)
class NodeRecord:
    """One agent's episode. `history` holds (action, event, reply text) per act turn; event.result is what it saw.

    start, end: the state before it entered and when it had returned; *_text: their dumps, taken then, where states are
    live. checked: what the world's program said then, where it cannot be asked later. changes: (stamp, delta) of its
    accepted actions. seen: revision of the state when it last looked. ending: how the world ended for everybody, when
    that ended the episode. seat: its place among agents that take turns. notebook: what its cells of code left behind.
    """

    agent: Agent
    parent: NodeRecord | None
    delegation: DelegationRecord | None
    branch: int | None
    goal: str
    context: str | None
    start: Any
    cell: StateCell
    clock: Clock
    ledger: AgentLedger
    deadline: Deadline
    seed: int
    turn_budget: int
    order_start: int = 0
    order_end: int = 0
    end: Any = None
    start_text: str | None = None
    end_text: str | None = None
    checked: tuple[Verdict | None] | None = None
    outcome: Outcome | None = None
    ending: End | None = None
    message: str | None = None
    error: str | None = None
    turns: list[Row] = field(default_factory=list)
    history: list[Step] = field(default_factory=list)
    changes: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    seen: int = 0
    seat: Seat | None = None
    delegations: list[DelegationRecord] = field(default_factory=list)
    score_rows: list[Row] = field(default_factory=list)
    label_rows: list[Row] = field(default_factory=list)
    transcript: Transcript | None = None
    notebook: Notebook | None = None
    score_transcripts: list[Transcript] = field(default_factory=list)
    n_turns: int = 0
    n_prompt_tokens: int = 0
    n_completion_tokens: int = 0
    versions: tuple[int, int] | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended_at: datetime | None = None

    @property
    def node_id(self) -> str:
        """Id of the node."""
        return self.agent.node_id

    @property
    def depth(self) -> int:
        """Root 0."""
        return self.agent.depth

    @property
    def on_path(self) -> bool:
        """Whether it and all its ancestors are the branches whose results were taken over."""
        above = self.delegation
        return above is None or (above.chosen == self.branch and above.parent.on_path)

    @property
    def shares_state(self) -> bool:
        """Whether it acts on its parent's live state."""
        return self.delegation is not None and self.delegation.scheduling == "parallel"

    @property
    def called_finish(self) -> bool:
        """Whether the agent itself ended its episode; one that the world ended has not."""
        return self.outcome == "finished" and self.ending is None

    def next_turn_id(self) -> str:
        """Id of the turn that is recorded next."""
        return f"{self.agent.node_id}#{len(self.turns):04d}"


@dataclass(slots=True, kw_only=True)
class DelegationRecord:
    """One launch: where it came from, the snapshot that every branch starts from, its rubric, its branches.

    start_text, start_deeds: the snapshot's dump and what led to it, where states are live. chosen: the branch whose
    result the parent gets; selected_by, selection_reason: who chose it among candidates, and why.
    """

    delegation_id: str
    parent: NodeRecord
    turn_id: str
    step: int
    launch: int
    targets: Any
    goal: str
    context: str | None
    start: Any
    depth: int
    turns: int
    scheduling: Scheduling = "sequential"
    start_text: str | None = None
    start_deeds: tuple[Deed, ...] = ()
    order_start: int = 0
    agents_started: int = 0
    k: int = 1
    selection: str = "plain"
    budget_position: int = 1
    inclusion_probability: float | None = 1.0
    chosen: int = 0
    selected_by: Selector | None = None
    selection_reason: str | None = None
    rubric: Rubric | None = None
    rubric_id: str | None = None
    rubric_stamp: int = 0
    rubric_rows: list[Row] = field(default_factory=list)
    rubric_transcripts: list[Transcript] = field(default_factory=list)
    branches: list[NodeRecord] = field(default_factory=list)


def committed(delegation: DelegationRecord) -> NodeRecord | None:
    """The branch whose result the parent got; None when no branch has started."""
    return delegation.branches[delegation.chosen] if delegation.branches else None
