"""The prompts of agents, rubric writers and scorers, as pure functions of what may be known.

Invariant: a writer sees what is known before the child starts; a scorer sees the rubric, the child's own calls and
answers, whether it called finish and the net change of the world - never a reward, a label or an outcome of the
environment. A long trajectory loses middle turns; goal, rubric and answer format are never cut.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from collect.policy import Message
from collect.world import Tool
from sera_data.errors import UsageError

STYLES = ("terse", "full")


@dataclass(frozen=True, slots=True)
class Assignment:
    """What an agent is asked to do: goal, note of its parent, what it sees of the world, steps and depth."""

    goal: str
    context: str | None
    observed: str
    turns: int
    depth: int
    max_depth: int


@cache
def style_texts(style: str) -> Mapping[str, Any]:
    """Texts of a style, from the package's YAML file."""
    if style not in STYLES:
        msg = f"no prompt style {style!r}; styles are {', '.join(STYLES)}"
        raise UsageError(msg)
    return yaml.safe_load((files("collect") / "prompts" / f"{style}.yaml").read_text(encoding="utf-8"))


def act_messages(style: str, *, world: str, tools: Sequence[Tool], assignment: Assignment) -> list[Message]:
    """First messages of an agent."""
    return [
        Message("system", _system(style, "act", world, tuple(tools))),
        Message("user", _assignment(style, assignment)),
    ]


def writer_messages(style: str, *, world: str, parent_goal: str, assignment: Assignment) -> list[Message]:
    """Prompt of a rubric writer for the child that is about to get `assignment`."""
    label = style_texts(style).get("parent_label")
    parent = f"{label}: {parent_goal}\n" if label else ""
    return [
        Message("system", _system(style, "writer", world)),
        Message("user", parent + _assignment(style, assignment)),
    ]


def scorer_messages(
    style: str,
    *,
    world: str,
    rubric: str,
    goal: str,
    turns: Sequence[tuple[str, str | None]],
    finished: bool,
    gained: Mapping[str, Any],
    trajectory_chars: int,
) -> list[Message]:
    """Prompt of a scorer: `turns` are (reply, answer) pairs, the answer None after the last call of a finish."""
    change = json.dumps(gained, ensure_ascii=False, separators=(",", ":"))
    parts = [
        f"Rubric: {rubric}",
        f"Goal: {goal}",
        *shortened([_turn(reply, answer) for reply, answer in turns], trajectory_chars),
        f"Finish: {'yes' if finished else 'no'}",
        f"Gained: {change}",
    ]
    return [Message("system", _system(style, "scorer", world)), Message("user", "\n".join(parts))]


def shortened(entries: Sequence[str], limit: int) -> list[str]:
    """The entries, or as many from both ends as fit into `limit` characters, with a line for what is left out."""
    if sum(map(len, entries)) + len(entries) <= limit:
        return list(entries)
    clipped = [_clip(entry, max(80, limit // 4)) for entry in entries]
    head: list[str] = []
    tail: list[str] = []
    room = limit
    first, last = 0, len(clipped)
    while first < last:
        from_end = len(tail) <= len(head)
        entry = clipped[last - 1] if from_end else clipped[first]
        room -= len(entry) + 1
        if room < 0:
            break
        if from_end:
            tail.insert(0, entry)
            last -= 1
        else:
            head.append(entry)
            first += 1
    left_out = [f"[{last - first} turns left out]"] if first < last else []
    return [*head, *left_out, *tail]


def _turn(reply: str, answer: str | None) -> str:
    return f"> {reply}" if answer is None else f"> {reply}\n{answer}"


def _clip(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


def _assignment(style: str, assignment: Assignment) -> str:
    lines = [f"Goal: {assignment.goal}"]
    if assignment.context:
        lines.append(f"Note: {' '.join(assignment.context.splitlines())}")
    lines.append(f"{style_texts(style)['state_label']}: {assignment.observed}")
    lines.append(f"Steps: {assignment.turns} Depth: {assignment.depth}/{assignment.max_depth}")
    return "\n".join(lines)


@cache
def _system(style: str, role: str, world: str, tools: tuple[Tool, ...] = ()) -> str:
    texts = style_texts(style)
    rules = texts.get("rules", {}).get(world, "")
    documented = "\n".join(f"- {tool.example} : {tool.doc}" for tool in tools)
    return texts[role].format(rules=rules, tools=documented).strip()
