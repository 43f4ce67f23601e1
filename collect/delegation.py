"""Delegation: typed launches, admitted before anything exists, run in order or side by side.

Invariant: a refused launch leaves nothing behind. Sequential: each launch of a turn starts from the parent's state
after the launch before it, only one branch ever changes the parent (compare-and-swap): branch 0, so that a forked
launch returns the same text, budget and state as a plain one, or the candidate that a selector chose. Parallel: the
children act on the parent's live state, every action a compare-and-swap of its own, so that nobody's work is
overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from collect.acting import changes_of
from collect.asking import InfrastructureFault
from collect.budget import ForkBudget
from collect.context import TreeContext, in_world
from collect.decision import Decision, Launch
from collect.forking import cell_of, frozen
from collect.records import Clock, DelegationRecord, NodeRecord, Row, committed
from collect.rubrics import write_rubric
from collect.selection import select
from collect.together import together
from collect.turn_rows import token_span, tool_call
from collect.world import Agent, Event
from schemas.words import Outcome
from sera_data.canonical import canonical_json

Episode = Callable[[TreeContext, NodeRecord], Coroutine[Any, Any, NodeRecord]]
MESSAGE_CHARS = 1_000

ENDINGS: dict[Outcome, str] = {
    "finished": "finished without a message",
    "not_finished": "ran out of steps",
    "truncated": "ran out of tokens",
    "timeout": "ran out of time",
    "loop": "repeated itself",
    "infra_error": "failed",
}


async def launch_all(
    context: TreeContext, parent: NodeRecord, decision: Decision, row: Row, *, episode: Episode
) -> None:
    """Run the launches of a turn and complete the turn's row; raises InfrastructureFault when a child had one."""
    before = parent.cell.state
    fault = None if decision.kind == "delegate" else decision.reason
    opened: list[DelegationRecord | str] = []
    try:
        for launch in decision.launches:
            item = open_launch(context, parent, launch, row, fault=fault)
            opened.append(item)
            if isinstance(item, DelegationRecord) and context.scheduling == "sequential":
                await run_launch(context, item, episode=episode)
        side_by_side = [d for d in opened if isinstance(d, DelegationRecord) and not d.branches]
        if side_by_side:
            await run_beside(context, parent, side_by_side, episode=episode)
    except InfrastructureFault as broken:
        row["ok"] = False
        row["error"] = str(broken)
        raise
    lines = [item if isinstance(item, str) else report(item) for item in opened]
    _complete(context, parent, decision, row, lines, before)


def open_launch(
    context: TreeContext, parent: NodeRecord, launch: Launch, row: Row, *, fault: str | None = None
) -> DelegationRecord | str:
    """Admit one launch of a turn and write its row: the opened delegation, or the text of its refusal.

    fault: why the reply's dialect could not read it.
    """
    index = len(row["delegations"])
    accepted = [d.targets for d in parent.delegations if d.turn_id == row["turn_id"]]
    reason, targets = (fault, None) if fault is not None else _admit(context, parent, launch, accepted)
    status = "launched" if reason is None else "refused" if targets is not None else "invalid"
    delegation_id = f"{parent.node_id}/t{row['step']}d{index}"
    delegation = _open(context, parent, launch, targets, delegation_id, row, index) if reason is None else None
    row["delegations"].append(
        _launch_row(context, row, launch, delegation_id, status=status, reason=reason, targets=targets)
    )
    if delegation is not None:
        return delegation
    return f"Refused: {reason}." if fault is None else f"Error: {reason}"


async def run_launch(context: TreeContext, delegation: DelegationRecord, *, episode: Episode) -> None:
    """Run an opened launch to its end and commit the chosen branch, 0 unless there is a selector, to the parent.

    InfrastructureFault when it, or any of several candidates, had one.
    """
    parent = delegation.parent
    revision = parent.cell.revision
    await _prepare(context, delegation)
    if context.selector is not None:
        await play_candidates(context, delegation, episode)
    else:
        await _episodes(context, delegation.branches, episode)
    child = _returned(delegation)
    parent.cell.swap(revision, child.cell.state)
    parent.cell.deeds = child.cell.deeds
    parent.ledger.started = child.ledger.started
    parent.clock.join(child.order_end)


async def run_beside(
    context: TreeContext, parent: NodeRecord, launches: Sequence[DelegationRecord], *, episode: Episode
) -> None:
    """Run opened launches side by side on the parent's live state; their rubrics are frozen before the first acts."""
    for delegation in launches:
        await _prepare(context, delegation)
    if parent.seat is not None:
        parent.seat.give()
    await _episodes(context, [delegation.branches[0] for delegation in launches], episode)
    if parent.seat is not None:
        await parent.seat.take()
    for delegation in launches:
        _returned(delegation)


def child_of(context: TreeContext, delegation: DelegationRecord, branch: int) -> NodeRecord:
    """A new record for a branch: it starts from the launch's snapshot and clock, or shares its parent's."""
    parent = delegation.parent
    node_id = f"{delegation.delegation_id}b{branch}"
    shared = delegation.scheduling == "parallel"
    cell = parent.cell if shared else cell_of(context, delegation, branch)
    ledger = parent.ledger
    if branch != 0 or context.selector is not None:
        ledger = ledger.copy()
        ledger.started = delegation.agents_started
    return NodeRecord(
        agent=Agent(node_id, delegation.depth, delegation.targets),
        parent=parent,
        delegation=delegation,
        branch=branch,
        goal=delegation.goal,
        context=delegation.context,
        start=delegation.start if shared else cell.state,
        cell=cell,
        clock=parent.clock if shared else Clock(delegation.order_start),
        ledger=ledger,
        deadline=parent.deadline,
        seed=context.seeds.of(node_id, role="node"),
        turn_budget=delegation.turns,
    )


def _admit(context: TreeContext, parent: NodeRecord, launch: Launch, accepted: list[Any]) -> tuple[str | None, Any]:
    """Reason of a refusal or None, and the validated targets or None when they are invalid."""
    try:
        targets = context.world.check_targets(parent.cell.state, launch.targets)
    except ValueError as error:
        return str(error), None
    budgets = context.settings.budgets
    depth = parent.depth + 1
    if in_world(lambda: context.world.over(parent.cell.state)) is not None:
        return "the world has ended", targets
    if depth > budgets.depth:
        return f"depth {depth} is deeper than {budgets.depth}, do it yourself", targets
    if budgets.turns_at(depth) < 1:
        return f"no steps are left for depth {depth}, do it yourself", targets
    if len(accepted) >= budgets.launches_per_turn:
        return f"only {budgets.launches_per_turn} launches per turn", targets
    if targets in accepted:
        return "the same targets were launched in this turn", targets
    if not parent.ledger.admits():
        return f"the tree has its {budgets.agents_per_tree} agents, do it yourself", targets
    room = context.environments
    if isinstance(room, ForkBudget) and room.created + context.settings.delegation.k > room.cap:
        return f"all {room.cap} environments of the tree are used up and no child is left, do it yourself", targets
    return None, targets


def _open(
    context: TreeContext,
    parent: NodeRecord,
    launch: Launch,
    targets: Any,
    delegation_id: str,
    row: Row,
    index: int,
) -> DelegationRecord:
    goal = in_world(lambda: context.world.goal(targets))
    parent.ledger.start()
    depth = parent.depth + 1
    delegation = DelegationRecord(
        delegation_id=delegation_id,
        parent=parent,
        turn_id=row["turn_id"],
        step=row["step"],
        launch=index,
        targets=targets,
        goal=goal,
        context=launch.context,
        start=parent.cell.state,
        depth=depth,
        turns=_turns(context, targets, depth),
        scheduling=context.scheduling,
        agents_started=parent.ledger.started,
        budget_position=context.environments.created,
        start_text=frozen(context, parent.cell.state),
        start_deeds=parent.cell.deeds,
    )
    _reserve_candidates(context, delegation)
    parent.delegations.append(delegation)
    return delegation


def _turns(context: TreeContext, targets: Any, depth: int) -> int:
    """The cap rule: what the launch asks for, never more than the budget of the child's depth."""
    budget = context.settings.budgets.turns_at(depth)
    asked = targets.get("max_steps") if context.world.goal_kind == "text" else None
    return budget if asked is None else min(asked, budget)


async def _prepare(context: TreeContext, delegation: DelegationRecord) -> None:
    """Reserve its environments, write its rubric, make the records of its branches."""
    parent = delegation.parent
    _reserve(context, delegation)
    if context.rubrics and (parent.on_path or delegation.k > 1 or context.selector is not None):
        await write_rubric(context, delegation)
    delegation.order_start = parent.clock.value + 1
    delegation.branches = [child_of(context, delegation, branch) for branch in range(delegation.k)]


async def play_candidates(context: TreeContext, delegation: DelegationRecord, episode: Episode) -> None:
    """Run all candidates of a delegation to their ends and choose one; no other is seen in the tree's path."""
    if context.in_order:
        for candidate in delegation.branches:
            await episode(context, candidate)
    else:
        await _episodes(context, delegation.branches, episode)
    if all(candidate.outcome != "infra_error" for candidate in delegation.branches):
        await select(context, delegation)
    delegation.parent.clock.join(max(candidate.order_end for candidate in delegation.branches))


async def _episodes(context: TreeContext, nodes: Sequence[NodeRecord], episode: Episode) -> None:
    if len(nodes) == 1:
        await episode(context, nodes[0])
    else:
        await together(episode(context, node) for node in nodes)


def _returned(delegation: DelegationRecord) -> NodeRecord:
    """The committed child; InfrastructureFault when it, or a candidate that could have been chosen, had one."""
    child = delegation.branches[delegation.chosen]
    for candidate in delegation.branches if delegation.selected_by is not None else [child]:
        if candidate.outcome == "infra_error":
            msg = f"child {candidate.node_id}: {candidate.error}"
            raise InfrastructureFault(msg)
    return child


def _reserve_candidates(context: TreeContext, delegation: DelegationRecord) -> None:
    """Every delegation is forked where a selector chooses; admission saw that its environments fit."""
    if context.selector is None:
        return
    delegation.k = context.settings.delegation.k
    delegation.selection = "best_of"
    delegation.selected_by = context.selector
    delegation.budget_position = context.environments.reserve(delegation.k) or 0


def _reserve(context: TreeContext, delegation: DelegationRecord) -> None:
    if context.forks != "reference":
        return
    k = context.settings.delegation.k
    position = context.environments.reserve(k)
    if position is None:
        return
    delegation.k = k
    delegation.selection = "reference"
    delegation.budget_position = position
    delegation.inclusion_probability = None


def report(delegation: DelegationRecord) -> str:
    """What the parent reads of a returned launch, the same whether it was forked or not."""
    child = delegation.branches[delegation.chosen]
    assert child.outcome is not None
    ending = "was stopped" if child.ending is not None else ENDINGS[child.outcome]
    text = " ".join((child.message or "").split())[:MESSAGE_CHARS] or ending
    return f"Child: {text}. Steps used: {child.n_turns} of {child.turn_budget}."


def _launch_row(
    context: TreeContext,
    row: Row,
    launch: Launch,
    delegation_id: str,
    *,
    status: str,
    reason: str | None,
    targets: Any,
) -> dict[str, Any]:
    start, end = token_span(context.policy("act"), row["completion_ids"], launch)
    asked = targets if targets is not None else launch.targets
    return {
        "delegation_id": delegation_id if status == "launched" else None,
        "status": status,
        "reason": reason,
        "targets": None if asked is None else canonical_json(asked),
        "char_start": launch.char_start,
        "char_end": launch.char_end,
        "token_start": start,
        "token_end": end,
    }


def _complete(
    context: TreeContext, parent: NodeRecord, decision: Decision, row: Row, lines: list[str], before: Any
) -> None:
    faults = [entry["reason"] for entry in row["delegations"] if entry["reason"] is not None]
    row["ok"] = not faults
    row["error"] = "; ".join(faults) or None
    event = Event(row["ok"], "\n".join(lines), _gained(context, parent, row, before))
    if decision.action is not None:
        row["tool_calls"] = [tool_call(decision.action, event, order_stamp=row["order_stamp"])]
    parent.history.append((decision.action, event, row["text"]))


def _gained(context: TreeContext, parent: NodeRecord, row: Row, before: Any) -> Mapping[str, Any] | None:
    """Net change by the children of the turn; None when there is none."""
    after, world = parent.cell.state, context.world
    pure = world.fork == "pure"
    if after is before and pure:
        return None
    if context.scheduling == "sequential" and pure:
        return in_world(lambda: world.difference(before, after))
    launched = [child for d in parent.delegations if d.turn_id == row["turn_id"] and (child := committed(d))]
    changes = [delta for child in launched for delta in changes_of(child)]
    return in_world(lambda: world.difference(before, after, changes=changes)) if launched else None
