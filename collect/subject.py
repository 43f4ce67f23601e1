"""A node to be labelled, as all labellers get it, and the case that a judge may know of it.

Invariant: a case holds goals, the agent's own calls with the answers it got, whether it called finish, its report and
the net change of the world. No outcome, label, score, reward, target, state or specification is in it, and an answer
that ended the world for everybody reads like any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from collect.world import World
from schemas.words import Outcome, Scheduling

Finish = Literal["yes", "no", "over"]
"""Whether the agent called finish; over: it did not, and the world had ended for everybody, however."""

ENDING = re.compile(r"^\[(?:success|failure|exhausted)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """One act turn: the agent's reply, the answer it got (None after the last), whether it called finish.

    helpers: goals and calls of the agents that it launched in this turn, one line each.
    """

    reply: str
    answer: str | None
    finish: bool = False
    helpers: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A node with everything a labeller may need.

    start, end: states of `world`. changes: deltas of the accepted actions of the node and its committed descendants, in
    order. scheduling: parallel when it acted on a state that others changed meanwhile. parent_goal: None for a root.
    loop: whether a loop is a failure or may succeed by the program's verdict (budgets.loop of its run).
    """

    world: World[Any]
    node_id: str
    tree_id: str
    task_id: str
    depth: int
    root_task: str
    parent_goal: str | None
    goal: str
    context: str | None
    targets: Mapping[str, Any] | None
    outcome: Outcome
    message: str | None
    start: Any
    end: Any
    steps: Sequence[Step]
    changes: Sequence[Mapping[str, Any]]
    scheduling: Scheduling = "sequential"
    loop: str = "failure"

    @property
    def called_finish(self) -> bool:
        """Whether the agent itself ended its episode; one that the world ended has not."""
        return any(step.finish for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a judge may know of a node."""

    root_task: str
    parent_goal: str | None
    goal: str
    context: str | None
    steps: Sequence[Step]
    finish: Finish
    report: str | None
    change: Mapping[str, Any]


def case_of(subject: Subject) -> Case:
    """The part of a subject that a judge may know."""
    return Case(
        root_task=subject.root_task,
        parent_goal=subject.parent_goal,
        goal=subject.goal,
        context=subject.context,
        steps=subject.steps,
        finish=_finish(subject),
        report=subject.message,
        change=_change(subject),
    )


def _change(subject: Subject) -> Mapping[str, Any]:
    """The node's own net change: beside parallel siblings the states hold their work too."""
    if subject.scheduling == "parallel":
        return subject.world.difference(subject.start, subject.end, changes=subject.changes)
    return subject.world.difference(subject.start, subject.end)


def _finish(subject: Subject) -> Finish:
    if subject.called_finish:
        return "yes"
    return "no" if subject.world.over(subject.end) is None else "over"


def neutral(answer: str | None) -> str | None:
    """An answer whose feedback class says how the world ended reads as an ordinary one: that is the world's verdict."""
    return None if answer is None else ENDING.sub("[ok]", answer)
