"""The episode of one agent: ask, decide, act, append, until it finishes or a budget ends it.

Invariant: a reply that was cut off or did not parse is never executed; an infrastructure fault, its own or of a
committed child, ends the episode as infra_error and never as a failure.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from collect.acting import apply_action, enter, leave, show
from collect.asking import InfrastructureFault, OutOfTime
from collect.context import TreeContext, in_world
from collect.delegation import launch_all
from collect.forking import keep_end, keep_start
from collect.policy import Completion
from collect.prompts import Assignment, act_messages
from collect.records import NodeRecord, Row
from collect.rows import program_verdict
from collect.transcript import Transcript
from collect.turn_rows import tool_call, turn_row
from collect.world import Action, Event
from schemas.words import Outcome
from sera_data.canonical import canonical_json


async def run_agent(context: TreeContext, node: NodeRecord) -> NodeRecord:
    """Play the node's episode; afterwards its outcome, end state and clock are final."""
    node.started_at = datetime.now(UTC)
    node.seat = context.rounds.seat() if context.rounds is not None else None
    try:
        await _play(context, node)
    finally:
        context.policy("act").release(node.node_id)
        node.order_end = node.clock.tick()
        if node.seat is not None:
            node.seat.give()
    node.ended_at = datetime.now(UTC)
    return node


async def _play(context: TreeContext, node: NodeRecord) -> None:
    try:
        _start(context, node)
        try:
            node.outcome = await _episode(context, node)
        except OutOfTime:
            node.outcome = "timeout"
        leave(context, node)
        keep_end(context, node)
        if context.world.fork != "pure":
            node.checked = (program_verdict(context, node),)
    except InfrastructureFault as fault:
        node.outcome = "infra_error"
        node.error = str(fault)
        node.end = node.cell.state


def _start(context: TreeContext, node: NodeRecord) -> None:
    node.order_start = node.clock.value
    if node.shares_state and node.delegation is not None:
        node.order_start = node.clock.tick()
        node.start = node.delegation.start = node.cell.state
    keep_start(context, node)
    if node.shares_state and node.delegation is not None:
        node.delegation.start_text = node.start_text
    enter(context, node)


async def _episode(context: TreeContext, node: NodeRecord) -> Outcome:
    transcript = _open(context, node)
    node.transcript = transcript
    row: Row | None = None
    completion: Completion | None = None
    while True:
        if node.seat is not None:
            await node.seat.take()
        outcome = _ended(context, node)
        if outcome is not None:
            return outcome
        if row is not None and completion is not None:
            if node.seen != node.cell.revision:
                row["observation"] = show(context, node)
            transcript.reply(completion, turn_id=row["turn_id"], observation=row["observation"])
        started_at = datetime.now(UTC)
        got = await context.complete(
            transcript,
            seed=context.seeds.of(node.node_id, role="act", turn=node.n_turns),
            deadline=node.deadline,
            facts=_facts(context, node),
            n_used=node.n_completion_tokens,
            temperature=context.temperature_at(node.depth),
        )
        if got is None:
            return "truncated"
        completion, sampling = got
        row = turn_row(
            turn_id=node.next_turn_id(),
            node_id=node.node_id,
            kind="act",
            step=node.n_turns,
            transcript=transcript,
            completion=completion,
            sampling=sampling,
            order_stamp=node.clock.tick(),
            started_at=started_at,
        )
        transcript.answer(completion)
        _count(node, row)
        if await _execute(context, node, completion, row):
            return "finished"
        row["observation"] = show(context, node)
        if node.seat is not None:
            node.seat.give()


def _ended(context: TreeContext, node: NodeRecord) -> Outcome | None:
    """How the episode ends before its next turn, or None when it goes on."""
    budgets = context.settings.budgets
    node.ending = in_world(lambda: context.world.over(node.cell.state))
    if node.ending is not None:
        return "finished" if node.ending == "success" else "not_finished"
    if budgets.repeats is not None and _repeats(node) >= budgets.repeats:
        return "loop"
    if node.n_turns >= node.turn_budget:
        return "not_finished"
    return "timeout" if node.deadline.passed() else None


def _open(context: TreeContext, node: NodeRecord) -> Transcript:
    assignment = Assignment(
        goal=node.goal,
        context=node.context,
        observed=context.observed(node.cell.state, node.agent),
        turns=node.turn_budget,
        depth=node.depth,
        max_depth=context.settings.budgets.depth,
    )
    opening = act_messages(
        context.services.style,
        world=context.world.name,
        profile=context.world.profile,
        dialect=context.services.dialect.name,
        tools=context.world.tools(),
        assignment=assignment,
    )
    return Transcript(context.policy("act"), role="act", session=node.node_id, node_id=node.node_id, opening=opening)


def _facts(context: TreeContext, node: NodeRecord) -> dict[str, Any]:
    return {
        "world": context.world,
        "task": context.plan.task,
        "state": node.cell.state,
        "start": node.start,
        "agent": node.agent,
        "context": node.context,
        "turns_left": node.turn_budget - node.n_turns,
        "max_depth": context.settings.budgets.depth,
        "history": node.history,
        "dialect": context.services.dialect,
    }


def _count(node: NodeRecord, row: Row) -> None:
    version = row["policy_version"]
    low, high = node.versions or (version, version)
    node.versions = (min(low, version), max(high, version))
    node.turns.append(row)
    node.n_turns += 1
    node.n_prompt_tokens += len(row["prompt_ids"] or ())
    node.n_completion_tokens += row["n_completion"] or 0


def _repeats(node: NodeRecord) -> int:
    last = node.history[-1][2] if node.history else None
    count = 0
    for _, _, text in reversed(node.history):
        if text != last:
            break
        count += 1
    return count


async def _execute(context: TreeContext, node: NodeRecord, completion: Completion, row: Row) -> bool:
    """Do what the reply decided and complete its row; True when the agent finished."""
    if completion.finish_reason == "length":
        _refuse(node, row, "truncated reply")
        return False
    decision = context.services.dialect.decide(completion.text, tools=context.tools)
    if decision.action is not None:
        row["action"] = canonical_json({"tool": decision.action.tool, **decision.action.arguments})
    if decision.kind == "finish" and decision.action is not None:
        node.message = decision.message
        node.history.append((decision.action, None, completion.text))
        row["tool_calls"] = [tool_call(decision.action, Event(True, ""), order_stamp=row["order_stamp"])]
        return True
    if decision.kind == "act" and decision.action is not None:
        _act(context, node, decision.action, row)
    elif decision.kind == "cell":
        from collect.cell import run_cell

        return await run_cell(context, node, decision, row, episode=run_agent)
    elif decision.launches:
        await launch_all(context, node, decision, row, episode=run_agent)
    else:
        _refuse(node, row, decision.reason or "invalid reply")
    return False


def _act(context: TreeContext, node: NodeRecord, action: Action, row: Row) -> None:
    event, call = apply_action(context, node, action, order_stamp=row["order_stamp"])
    row["tool_calls"] = [call]
    if not event.ok:
        row["ok"] = False
        row["error"] = event.result
    node.history.append((action, event, row["text"]))


def _refuse(node: NodeRecord, row: Row, reason: str) -> None:
    row["ok"] = False
    row["error"] = reason
    node.history.append((None, Event(False, f"Error: {reason}"), row["text"]))
