"""Delegation: typed launches, admitted before anything exists, run one after another, committed compare-and-swap.

Invariant: a refused launch leaves nothing behind; each launch of a turn starts from the parent's state after the
launch before it; only branch 0 ever changes the parent, and a forked launch returns to it the same text, budget and
state as a plain one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from collect.asking import InfrastructureFault
from collect.context import TreeContext, in_world
from collect.decision import Decision, Launch
from collect.records import Clock, DelegationRecord, NodeRecord, Row, StateCell
from collect.rubrics import write_rubric
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
    lines: list[str] = []
    accepted: list[Any] = []
    try:
        for index, launch in enumerate(decision.launches):
            reason, targets = _admit(context, parent, decision, launch, accepted)
            status = "launched" if reason is None else "refused" if targets is not None else "invalid"
            delegation_id = f"{parent.node_id}/t{row['step']}d{index}"
            delegation = _open(context, parent, launch, targets, delegation_id, row, index) if reason is None else None
            row["delegations"].append(
                _launch_row(context, row, launch, delegation_id, status=status, reason=reason, targets=targets)
            )
            if delegation is None:
                lines.append(f"Refused: {reason}." if decision.kind == "delegate" else f"Error: {reason}")
                continue
            accepted.append(targets)
            child = await _run(context, delegation, episode)
            lines.append(_report(child))
    except InfrastructureFault as fault:
        row["ok"] = False
        row["error"] = str(fault)
        raise
    _complete(context, parent, decision, row, lines, before)


def child_of(context: TreeContext, delegation: DelegationRecord, branch: int, *, on_path: bool) -> NodeRecord:
    """A new record for a branch: it starts from the launch's snapshot, and from its clock."""
    parent = delegation.parent
    node_id = f"{delegation.delegation_id}b{branch}"
    ledger = parent.ledger
    if branch != 0:
        ledger = ledger.copy()
        ledger.started = delegation.agents_started
    return NodeRecord(
        agent=Agent(node_id, delegation.depth, delegation.targets),
        parent=parent,
        delegation=delegation,
        branch=branch,
        on_path=on_path,
        goal=delegation.goal,
        context=delegation.context,
        start=delegation.start,
        cell=StateCell(delegation.start),
        clock=Clock(delegation.order_start),
        ledger=ledger,
        deadline=parent.deadline,
        seed=context.seeds.of(node_id, role="node"),
        turn_budget=delegation.turns,
    )


def _admit(
    context: TreeContext, parent: NodeRecord, decision: Decision, launch: Launch, accepted: list[Any]
) -> tuple[str | None, Any]:
    """Reason of a refusal or None, and the validated targets or None when they are invalid."""
    if decision.kind != "delegate":
        return decision.reason, None
    try:
        targets = context.world.check_targets(parent.cell.state, launch.targets)
    except ValueError as error:
        return str(error), None
    budgets = context.settings.budgets
    depth = parent.depth + 1
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
        turns=context.settings.budgets.turns_at(depth),
        agents_started=parent.ledger.started,
        budget_position=context.environments.created,
    )
    parent.delegations.append(delegation)
    return delegation


async def _run(context: TreeContext, delegation: DelegationRecord, episode: Episode) -> NodeRecord:
    """Write the rubric, run the branches, commit branch 0 to the parent."""
    parent = delegation.parent
    revision = parent.cell.revision
    _reserve(context, delegation)
    if context.rubrics and (parent.on_path or delegation.k > 1):
        await write_rubric(context, delegation)
    delegation.order_start = parent.clock.value + 1
    delegation.branches = [
        child_of(context, delegation, branch, on_path=parent.on_path and branch == 0) for branch in range(delegation.k)
    ]
    if delegation.k == 1:
        await episode(context, delegation.branches[0])
    else:
        await together(episode(context, branch) for branch in delegation.branches)
    child = delegation.branches[0]
    if child.outcome == "infra_error":
        msg = f"child {child.node_id}: {child.error}"
        raise InfrastructureFault(msg)
    parent.cell.swap(revision, child.cell.state)
    parent.clock.join(child.order_end)
    return child


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


def _report(child: NodeRecord) -> str:
    assert child.outcome is not None
    text = " ".join((child.message or "").split())[:MESSAGE_CHARS] or ENDINGS[child.outcome]
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
    observation = "\n".join(lines)
    row["observation"] = observation
    row["ok"] = not faults
    row["error"] = "; ".join(faults) or None
    after = parent.cell.state
    delta = None if after is before else in_world(lambda: context.world.difference(before, after))
    event = Event(row["ok"], observation, delta)
    if decision.action is not None:
        row["tool_calls"] = [
            tool_call(
                "delegate",
                canonical_json(decision.action.arguments),
                ok=event.ok,
                result=observation,
                delta=None if delta is None else canonical_json(delta),
            )
        ]
    parent.history.append((decision.action, event, row["text"]))
