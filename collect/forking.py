"""How the runner gets an independent copy of a world, by what the world declares in `fork`.

Invariant: a branch starts from a state whose dump is that of the launch, or not at all. pure: states are values, a copy
is the state itself. snapshot: states may be live, `load(dump(state))` is a new one. replay: states are live and cannot
be loaded; a copy is a new start of the task on which everything done so far is done again. none: there is one live
state and no copy, so delegation is plain.
"""

from __future__ import annotations

from typing import Any

from collect.asking import InfrastructureFault
from collect.context import TreeContext, in_world
from collect.records import Deed, DelegationRecord, NodeRecord, StateCell
from collect.settings import REFERENCE_WORLD_STEPS
from collect.world import Agent, Task, World
from sera_data.errors import UsageError


def require_forks(world: World[Any], *, mode: str) -> None:
    """UsageError when a world cannot make the copies that a mode of delegation needs."""
    if world.fork == "none" and mode != "plain":
        msg = f"world {world.name!r} cannot fork (fork: none), so delegation.mode must be plain, got {mode}"
        raise UsageError(msg, hint="--set delegation.mode=plain, in an evaluation without --select")


def started_task(context: TreeContext) -> Task:
    """The tree's task under its budget of shared steps."""
    task, limited = context.plan.task, getattr(context.world, "limited", None)
    if context.settings.budgets.world_steps == "reference" and limited is not None:
        reference: Task = limited(task, REFERENCE_WORLD_STEPS)
        return reference
    return task


def frozen(context: TreeContext, state: Any) -> str | None:
    """Dump of a state that may change later; None where states are values and can be dumped at any time."""
    return None if context.world.fork == "pure" else in_world(lambda: context.world.dump(state))


def remember(context: TreeContext, cell: StateCell, deed: Deed) -> None:
    """Keep what was done to a state, where copies are made by doing it again."""
    if context.world.fork == "replay":
        cell.deeds = (*cell.deeds, deed)


def cell_of(context: TreeContext, delegation: DelegationRecord, branch: int) -> StateCell:
    """The state that a branch starts from: branch 0 takes over the parent's, the others get copies."""
    world = context.world
    if world.fork == "pure":
        return StateCell(delegation.start)
    if branch == 0:
        return StateCell(delegation.start, deeds=delegation.start_deeds)
    state = in_world(lambda: _copied(context, delegation))
    found = in_world(lambda: world.dump(state))
    if found != delegation.start_text:
        msg = f"world {world.name!r}: its {world.fork} is not the state that {delegation.delegation_id} started from"
        raise InfrastructureFault(msg)
    return StateCell(state, deeds=delegation.start_deeds)


def seen_before(context: TreeContext, delegation: DelegationRecord, child: Agent) -> str:
    """What can be seen of the world before a child starts, without touching a live state."""
    world, parent = context.world, delegation.parent.agent
    if world.fork != "pure":
        return in_world(lambda: world.observe(delegation.start, parent))
    return in_world(lambda: world.observe(world.enter(delegation.start, child, parent), child))


def keep_end(context: TreeContext, node: NodeRecord) -> None:
    """Remember the state in which an agent leaves; a live one may be changed by others afterwards."""
    node.end = node.cell.state
    node.end_text = frozen(context, node.end)
    if context.world.fork == "snapshot":
        text = node.end_text or ""
        node.end = in_world(lambda: context.world.load(text))


def keep_start(context: TreeContext, node: NodeRecord) -> None:
    """Remember the state in which an agent starts."""
    node.start_text = frozen(context, node.start)
    if context.world.fork == "snapshot":
        text = node.start_text or ""
        node.start = in_world(lambda: context.world.load(text))


def _copied(context: TreeContext, delegation: DelegationRecord) -> Any:
    world = context.world
    if world.fork == "snapshot":
        assert delegation.start_text is not None
        return world.load(delegation.start_text)
    state = world.reset(started_task(context))
    for deed in delegation.start_deeds:
        state = deed(world, state)
    return state
