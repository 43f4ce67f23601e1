"""The prompts of agents, rubric writers and scorers, as pure functions of what may be known.

Invariant: a writer sees what is known before the child starts; a scorer sees the rubric, the child's own calls and
answers, whether it called finish and the net change of the world - never a reward, a label or an outcome of the
environment. A long trajectory loses middle turns; goal, rubric and answer format are never cut.

A text is looked up in the file of style and dialect, then in the style's own; in each of them what stands under
`worlds: NAME/PROFILE:` comes first, then what stands under `worlds: NAME:`.
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


@dataclass(frozen=True, slots=True)
class Voice:
    """What prompt texts are chosen by: style, dialect of the replies, name and rule profile of the world."""

    style: str
    dialect: str
    world: str
    profile: str | None = None

    def text(self, key: str) -> str | None:
        """The text of a key, or None where no file has it."""
        for texts in _files(self.style, self.dialect):
            own = texts.get("worlds", {})
            names = (f"{self.world}/{self.profile}", self.world)
            found = next((own[name][key] for name in names if key in own.get(name, {})), texts.get(key))
            if key == "rules" and isinstance(found, Mapping):
                found = found.get(self.world)
            if found is not None:
                return str(found)
        return None

    def required(self, key: str) -> str:
        """The text of a key that every style has."""
        found = self.text(key)
        if found is None:
            msg = f"prompt style {self.style!r} has no text {key!r} for dialect {self.dialect!r}"
            raise UsageError(msg, hint=f"add it to collect/prompts/{self.style}_{self.dialect}.yaml")
        return found


@cache
def style_texts(name: str) -> Mapping[str, Any]:
    """Texts of a file of the package, such as `full` or `full_blocks`."""
    return yaml.safe_load((files("collect") / "prompts" / f"{name}.yaml").read_text(encoding="utf-8"))


@cache
def _files(style: str, dialect: str) -> tuple[Mapping[str, Any], ...]:
    if style not in STYLES:
        msg = f"no prompt style {style!r}; styles are {', '.join(STYLES)}"
        raise UsageError(msg)
    own = f"{style}_{dialect}"
    exists = (files("collect") / "prompts" / f"{own}.yaml").is_file()
    return (*((style_texts(own),) if exists else ()), style_texts(style))


def act_messages(
    style: str,
    *,
    world: str,
    tools: Sequence[Tool],
    assignment: Assignment,
    dialect: str = "json",
    profile: str | None = None,
) -> list[Message]:
    """First messages of an agent."""
    voice = Voice(style, dialect, world, profile)
    return [
        Message("system", _system(voice, "act", tuple(tools))),
        Message("user", _assignment(voice, assignment)),
    ]


def writer_messages(
    style: str, *, world: str, parent_goal: str, assignment: Assignment, dialect: str = "json"
) -> list[Message]:
    """Prompt of a rubric writer for the child that is about to get `assignment`."""
    voice = Voice(style, dialect, world)
    label = voice.text("parent_label")
    parent = f"{label}: {parent_goal}\n" if label else ""
    return [
        Message("system", _system(voice, "writer")),
        Message("user", parent + _assignment(voice, assignment)),
    ]


def scorer_messages(
    style: str,
    *,
    world: str,
    rubric: str | None,
    goal: str,
    turns: Sequence[tuple[str, str | None]],
    finished: bool,
    stopped: bool = False,
    gained: Mapping[str, Any],
    trajectory_chars: int,
    dialect: str = "json",
) -> list[Message]:
    """Prompt of a scorer: `turns` are (reply, answer) pairs, the answer None after the last call of a finish.

    rubric: None for a score without one.

    stopped: the world ended for everybody, however it ended, before the agent could finish.
    """
    change = json.dumps(gained, ensure_ascii=False, separators=(",", ":"))
    parts = [
        *([] if rubric is None else [f"Rubric: {rubric}"]),
        f"Goal: {goal}",
        *shortened([_turn(reply, answer) for reply, answer in turns], trajectory_chars),
        f"Finish: {'stopped' if stopped else 'yes' if finished else 'no'}",
        f"Gained: {change}",
    ]
    role = "scorer" if rubric is not None else "scorer_direct"
    return [Message("system", _system(Voice(style, dialect, world), role)), Message("user", "\n".join(parts))]


def call_in_json(tool: Tool) -> str:
    """A tool's example as it stands in its documentation."""
    return tool.example


def call_in_code(tool: Tool) -> str:
    """A tool's example as a cell calls it: arguments by position."""
    example = json.loads(tool.example)
    return f"{tool.name}({', '.join(repr(example[name]) for name in tool.positions() if name in example)})"


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


def _assignment(voice: Voice, assignment: Assignment) -> str:
    lines = [f"Goal: {assignment.goal}"]
    if assignment.context:
        lines.append(f"Note: {' '.join(assignment.context.splitlines())}")
    lines.append(f"{voice.required('state_label')}: {assignment.observed}")
    lines.append(f"Steps: {assignment.turns} Depth: {assignment.depth}/{assignment.max_depth}")
    return "\n".join(lines)


@cache
def _system(voice: Voice, role: str, tools: tuple[Tool, ...] = ()) -> str:
    rules = voice.text("rules") or ""
    shown = call_in_code if voice.dialect == "code" else call_in_json
    documented = "\n".join(f"- {shown(tool)} : {tool.doc}" for tool in tools)
    return voice.required(role).format(rules=rules, tools=documented).strip()
