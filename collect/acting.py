"""Where a running agent meets the world: it enters, acts, looks, and leaves.

Invariant: every change of a state goes through a compare-and-swap on the cell it was read from, at once after it was
read, so no work of another agent is ever overwritten; an accepted action's delta is remembered with its stamp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collect.context import TreeContext, in_world
from collect.forking import remember
from collect.records import NodeRecord, Row, committed
from collect.turn_rows import tool_call
from collect.world import Action, Event

ENDING = ("success", "failure", "exhausted")


def enter(context: TreeContext, node: NodeRecord) -> None:
    """The agent appears in the world, where its parent is."""
    agent, parent = node.agent, None if node.parent is None else node.parent.agent
    cell, revision = node.cell, node.cell.revision
    cell.swap(revision, in_world(lambda: context.world.enter(cell.state, agent, parent)))
    remember(context, cell, lambda world, state: world.enter(state, agent, parent))


def leave(context: TreeContext, node: NodeRecord) -> None:
    """The agent is gone."""
    agent, cell, revision = node.agent, node.cell, node.cell.revision
    cell.swap(revision, in_world(lambda: context.world.leave(cell.state, agent)))
    remember(context, cell, lambda world, state: world.leave(state, agent))


def apply_action(context: TreeContext, node: NodeRecord, action: Action, *, order_stamp: int) -> tuple[Event, Row]:
    """Let the world apply one action of the agent: what happened, and the call's row for `tool_calls`."""
    cell, revision = node.cell, node.cell.revision
    agent = node.agent
    state, event = in_world(lambda: context.world.apply(cell.state, agent, action))
    cell.swap(revision, state)
    remember(context, cell, lambda world, state: world.apply(state, agent, action)[0])
    if event.ok and event.delta is not None:
        node.changes.append((order_stamp, event.delta))
    return event, tool_call(action, event, order_stamp=order_stamp)


def changes_of(node: NodeRecord) -> list[Mapping[str, Any]]:
    """Deltas of the accepted actions of the node and its committed descendants, in the order of their stamps."""
    return [delta for _, delta in sorted(_stamped(node), key=lambda entry: entry[0])]


def _stamped(node: NodeRecord) -> list[tuple[int, Mapping[str, Any]]]:
    children = [child for launch in node.delegations if (child := committed(launch)) is not None]
    return [*node.changes, *(entry for child in children for entry in _stamped(child))]


def gained(context: TreeContext, node: NodeRecord) -> Mapping[str, Any]:
    """Net change of the world by the node's own work and its committed descendants', without its siblings'."""
    world = context.world
    if context.scheduling == "sequential" and world.fork == "pure":
        return in_world(lambda: world.difference(node.start, node.end))
    return in_world(lambda: world.difference(node.start, node.end, changes=changes_of(node)))


def said(event: Event, *, judged: bool = False) -> str:
    """An event as one text: its feedback class and what the world says; for those who judge an end shows as ok."""
    if event.feedback is None:
        return event.result
    shown = "ok" if judged and event.feedback in ENDING else event.feedback
    return f"[{shown}] {event.result}"


def show(context: TreeContext, node: NodeRecord) -> str:
    """What the agent reads after its last turn.

    Worlds whose goals are texts are seen anew after every turn, as they are now: what others did since is in it.
    """
    _, event, _ = node.history[-1]
    node.seen = node.cell.revision
    if event is None:
        return ""
    if context.world.goal_kind != "text":
        return event.result
    lines = [said(event), context.observed(node.cell.state, node.agent)]
    budget = context.voice.text("steps_left")
    if budget is not None:
        lines.append(budget.format(left=node.turn_budget - node.n_turns))
    return "\n".join(lines)
