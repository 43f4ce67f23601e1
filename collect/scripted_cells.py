"""The scripted agents of the dialect `code`: whole pieces of work as cells, for TextCraft.

Invariant: a cell depends only on what the agent's prompt showed and on what its earlier cells printed. The delegating
agent works as the dialect is meant: it looks the recipes up, hands its largest part to a helper and makes the rest.
The single cell is the other extreme, one program that never delegates and does not know its task beforehand.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from collect.dialect_code import CELL_TOOL, write_cell
from collect.records import Step
from collect.scripted_agents import Situation
from collect.world import Action, Event

LARGE = 60  # crafts from which on a part is handed over
LOOK = """\
targets, start, book, levels = {targets!r}, view_inventory(), {{}}, {{}}
def read(items):
    new = [item for item in items if item not in book]
    if new:
        for entry in get_info(new):
            book[entry["item"]] = entry.get("needs", {{}}), entry.get("makes", 0)
        read(sorted({{name for item in new for name in book[item][0]}}))
def level(item):
    if item not in levels:
        levels[item] = 1 + max([level(name) for name in book[item][0]] + [0])
    return levels[item]
def plan(wanted, have):
    need, crafts = dict(wanted), []
    for item in sorted(book, key=level, reverse=True):
        needs, makes = book[item]
        short = need.get(item, 0) - have.get(item, 0)
        if short > 0 and makes:
            runs = -(-short // makes)
            for name in needs:
                need[name] = need.get(name, 0) + runs * needs[name]
            crafts.insert(0, ({{name: runs * needs[name] for name in needs}}, (item, runs * makes)))
    return crafts
read(list(targets))
wanted = {{item: start.get(item, 0) + targets[item] for item in targets}}
made = {{item: count for _, (item, count) in plan(wanted, start)}}
def work(item):
    return len(plan({{item: made[item] + start.get(item, 0)}}, start))
parts = sorted({{name for item in targets for name in book[item][0] if name in made}})
print({{name: [made[name], work(name)] for name in parts}})"""
MAKE = """\
for needs, target in plan(wanted, view_inventory()):
    print(craft(needs, target))
have = view_inventory()
left = {item: wanted[item] - have.get(item, 0) for item in wanted if have.get(item, 0) < wanted[item]}
print(left)
if not left:
    finish("done")"""
SINGLE = """\
need, crafts = {targets!r}, []
while need:
    now, need = need, {{}}
    for info in get_info(list(now)):
        if "needs" in info:
            runs = -(-now[info["item"]] // info["makes"])
            crafts.append(({{n: runs * info["needs"][n] for n in info["needs"]}}, (info["item"], runs * info["makes"])))
            need.update({{n: need.get(n, 0) + runs * info["needs"][n] for n in info["needs"]}})
[craft(needs, target) for needs, target in reversed(crafts)]
finish("done")"""


def single_cell(targets: Mapping[str, int]) -> str:
    """The whole task in one cell of ten lines: what is needed, level by level, then every craft from the bottom up."""
    return write_cell("One program makes everything.", SINGLE.format(targets=dict(targets)))


def delegating_cell(targets: Mapping[str, int], situation: Situation, history: Sequence[Step]) -> str:
    """The next cell of an agent that looks up, hands over, makes."""
    if situation.turns_left <= 1 and history:
        return write_cell("No steps are left.", 'finish("failed")')
    if not _looked(history):
        return write_cell("I read the recipes and count the work.", LOOK.format(targets=dict(targets)))
    parts = _parts(history)
    if len(history) == 1 and _large(parts) and situation.depth < situation.max_depth:
        return write_cell("I hand the largest part over.", _hand_over(parts))
    return write_cell("I make what is left.", MAKE)


def as_calls(history: Sequence[Step], calls: Sequence[Mapping[str, Any]]) -> list[Step]:
    """A history of one-call cells as if the calls had been replies of their own; `calls` are those of the cells."""
    return [
        (_call(action, call), event and Event(event.ok, _as_json(event.result)), text)
        for (action, event, text), call in zip(history, calls, strict=True)
    ]


def _looked(history: Sequence[Step]) -> bool:
    return bool(history) and history[0][1] is not None and history[0][1].ok


def _parts(history: Sequence[Step]) -> dict[str, list[int]]:
    """Parts that the first cell printed: count and crafts by item."""
    event = history[0][1]
    try:
        parts = ast.literal_eval(event.result.strip().splitlines()[-1]) if event else {}
    except (ValueError, SyntaxError):
        return {}
    return parts if isinstance(parts, dict) else {}


def _large(parts: Mapping[str, Sequence[int]]) -> list[str]:
    return [item for item in parts if parts[item][1] >= LARGE]


def _hand_over(parts: Mapping[str, Sequence[int]]) -> str:
    """Launch of the largest part: making it uses up most, so it comes before all that the agent makes itself."""
    item = min(_large(parts), key=lambda name: (-parts[name][1], name))
    return f"print(await delegate({{{item!r}: {parts[item][0]}}}))"


def _call(action: Action | None, call: Mapping[str, Any]) -> Action | None:
    if action is None or action.tool != CELL_TOOL:
        return action
    return Action(call["tool"], {name: value for name, value in call.items() if name != "tool"})


def _as_json(text: str) -> str:
    """What a cell printed of a list or mapping, as the tool itself would have answered."""
    if text[:1] not in ("[", "{"):
        return text
    try:
        return json.dumps(ast.literal_eval(text), separators=(",", ":"))
    except (ValueError, SyntaxError):
        return text
