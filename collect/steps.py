"""The steps of an episode as a judge is shown them: replies, answers, and what helpers did.

Invariant: made of stored columns only, so that a running tree and a store give the same. An answer never says how the
world ended; worlds whose goals are texts show what each command did, not the whole view again. Work that was delegated
shows call by call, so that a judge can tell a helper's work from a claim.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from collect.subject import Step, neutral
from collect.world import GoalKind

Row = Mapping[str, Any]
NOT_OF_THE_WORLD = ("delegate", "finish")
SHOWN = ("ok", "rejected", "info")
"""Feedback classes that a judge may see; any other, that is how the world ended, reads as ok."""
CHILD = re.compile(r"/t(?P<step>\d+)d(?P<launch>\d+)b\d+")


def steps_of(
    node: str, *, turns: Mapping[str, Sequence[Row]], goals: Mapping[str, str], goal_kind: GoalKind
) -> list[Step]:
    """Steps of a node. `turns`: act turns (columns of `turns`, in order) by node, of it and its committed descendants.

    goals: goal by node of the same descendants.
    """
    return [
        Step(
            reply=row["text"],
            answer=answer_of(row, goal_kind=goal_kind),
            finish=any(call["tool"] == "finish" and call["ok"] for call in row["tool_calls"]),
            helpers=tuple(_helped(node, row["step"], turns=turns, goals=goals, mark="")),
        )
        for row in turns.get(node, ())
    ]


def changes_of_turns(turns: Mapping[str, Sequence[Row]]) -> list[Mapping[str, Any]]:
    """Deltas of all accepted calls on the world in these turns, in the order of their stamps."""
    stamped = [
        (call["order_stamp"] if call["order_stamp"] is not None else row["order_stamp"], json.loads(call["delta"]))
        for node in sorted(turns)
        for row in turns[node]
        for call in row["tool_calls"]
        if call["ok"] and call["delta"] is not None and call["tool"] not in NOT_OF_THE_WORLD
    ]
    return [delta for _, delta in sorted(stamped, key=lambda entry: entry[0])]


def answer_of(row: Row, *, goal_kind: GoalKind) -> str | None:
    """What the agent was answered, without the view that follows in worlds of text goals."""
    if goal_kind != "text":
        return neutral(row["observation"])
    calls = [call for call in row["tool_calls"] if call["tool"] != "finish"]
    if calls:
        return "\n".join(_said(call) for call in calls)
    return None if row["error"] is None else f"Error: {row['error']}"


def _said(call: Row) -> str:
    if call["feedback"] is None:
        return neutral(call["result"]) or ""
    shown = call["feedback"] if call["feedback"] in SHOWN else "ok"
    return f"[{shown}] {call['result']}"


def _helped(
    node: str, step: int, *, turns: Mapping[str, Sequence[Row]], goals: Mapping[str, str], mark: str
) -> list[str]:
    """Goals and calls of the helpers launched at a step, theirs below each launch, one line each."""
    lines: list[str] = []
    for child in _children(node, step, goals):
        lines.append(f"{mark}helper's goal: {' '.join(goals[child].split())}")
        for row in turns.get(child, ()):
            lines += _helped(child, row["step"], turns=turns, goals=goals, mark=f"{mark}> ")
            calls = [call for call in row["tool_calls"] if call["tool"] not in NOT_OF_THE_WORLD]
            lines += [f"{mark}{_called(call)} : {_said(call)}" for call in calls]
    return lines


def _children(node: str, step: int, goals: Mapping[str, str]) -> list[str]:
    found = []
    for other in goals:
        match = CHILD.fullmatch(other, len(node)) if other.startswith(node) else None
        if match is not None and int(match["step"]) == step:
            found.append((int(match["launch"]), other))
    return [child for _, child in sorted(found)]


def _called(call: Row) -> str:
    """A command in words as it was given, any other call with its arguments."""
    arguments = json.loads(call["arguments"])
    text = arguments.get("text") if isinstance(arguments, dict) else None
    return text if isinstance(text, str) else f"{call['tool']} {call['arguments']}"
