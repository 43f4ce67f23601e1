"""What a scripted agent knows: recipes it looked up and the stock it believes in, read from its own history.

Invariant: only what the agent's prompt shows is used - the starting inventory, its own calls and the texts that came
back. The true state is never read, so a belief can be wrong after a child has worked; then the agent looks again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from collect.planner import Craft, Plan, consumers_first, crafts_in_order, plan_in_order
from collect.recipes import Recipe, is_base_name
from collect.world import Action, Event

DONE = "done"
CRAFTED = re.compile(r"Crafted (\d+)x (\S+), have (\d+)\.")
TIER = re.compile(r"^[a-z]\d+_i(\d+)|^x(\d+)_")


class Belief:
    """Knowledge of one agent, extended turn by turn with `read`."""

    def __init__(self, start: Mapping[str, int], targets: Mapping[str, int]) -> None:
        self.targets = dict(targets)
        self.stock = dict(start)
        self.wanted = {item: start.get(item, 0) + count for item, count in targets.items()}
        self.recipes: dict[str, Recipe] = {}
        self.known: set[str] = set()
        self.tried: dict[str, int] = {}
        self.doubt = False
        self.refused = False
        self.failed = False
        self.progress = False
        self.attempts = 0
        self.turns = 0
        self._orders: dict[tuple[str, ...], tuple[str, ...]] = {}

    def read(self, history: Sequence[tuple[Action | None, Event | None, str]]) -> None:
        """Take in the turns that are new since the last call."""
        for action, event, _ in history[self.turns :]:
            self.failed = action is None or (event is not None and not event.ok)
            if action is not None and event is not None:
                self._take(action, event)
        self.turns = len(history)

    def lacking(self) -> dict[str, int]:
        """Targets not reached yet, with the count still to gain."""
        return {item: n - self.stock.get(item, 0) for item, n in self.wanted.items() if self.stock.get(item, 0) < n}

    def plan(self) -> Plan:
        """Crafts to the lacking targets by the known recipes; items without a known recipe show as missing."""
        return self.plan_for(self.lacking())

    def plan_for(self, targets: Mapping[str, int]) -> Plan:
        """The same for any targets."""
        return plan_in_order(self.recipes, self.stock, targets, self._order(targets))

    def crafts_for(self, targets: Mapping[str, int], stock: Mapping[str, int]) -> int:
        """How many crafts lead to any targets from any stock."""
        return crafts_in_order(self.recipes, stock, targets, self._order(targets))

    def _order(self, targets: Mapping[str, int]) -> tuple[str, ...]:
        key = tuple(sorted(targets))
        order = self._orders.get(key)
        if order is None:
            order = self._orders[key] = consumers_first(self.recipes, key)
        return order

    def after(self, targets: Mapping[str, int], crafts: Sequence[Craft] | None = None) -> dict[str, int]:
        """Stock after a child that makes the targets as this agent would."""
        left = dict(self.stock)
        for craft in self.plan_for(targets).crafts if crafts is None else crafts:
            for name, count in craft.needs.items():
                left[name] = max(0, left.get(name, 0) - count)
            left[craft.item] = left.get(craft.item, 0) + craft.count
        for item, count in targets.items():
            left[item] = max(left.get(item, 0), self.stock.get(item, 0) + count)
        return left

    def _take(self, action: Action, event: Event) -> None:
        self.attempts += action.tool == "craft"
        if action.tool == "delegate":
            self._take_children(action, event.result)
        elif not event.ok:
            self.doubt = self.doubt or " have " in event.result
        elif action.tool == "view_inventory":
            self.stock, self.doubt = dict(json.loads(event.result)), False
        elif action.tool == "get_info":
            for entry in json.loads(event.result):
                self._take_info(entry)
        elif action.tool == "craft":
            self._take_craft(action, event.result)

    def _take_info(self, entry: Mapping[str, Any]) -> None:
        item = entry["item"]
        self.known.add(item)
        if "have" in entry:
            self.stock[item] = entry["have"]
        if "needs" in entry and item not in self.recipes:
            self._orders.clear()
            self.recipes[item] = Recipe(item, entry["makes"], entry["needs"], 0)

    def _take_craft(self, action: Action, result: str) -> None:
        match = CRAFTED.match(result)
        if match is None:
            return
        self.progress = True
        for name, count in action.arguments["ingredients"].items():
            self.stock[name] = max(0, self.stock.get(name, 0) - count)
        self.stock[match[2]] = int(match[3])

    def _take_children(self, action: Action, result: str) -> None:
        launches = action.arguments.get("launches") or [action.arguments]
        for launch, line in zip(launches, result.split("\n"), strict=False):
            if line.startswith("Refused"):
                self.refused = True
                continue
            for item in launch["targets"]:
                self.tried[item] = self.tried.get(item, 0) + 1
            if line.startswith(f"Child: {DONE}"):
                self.progress = True
                self.stock = self.after(launch["targets"])
            else:
                self.doubt = True


def to_look_up(items: Sequence[str], belief: Belief) -> list[str]:
    """Items whose recipe is not known yet; base materials are told by their names."""
    return [item for item in items if item not in belief.known and not is_base_name(item)]


def tier_of(item: str) -> int:
    """Tier by the public naming rule; 0 for base materials and unknown forms."""
    match = TIER.match(item)
    return int(match[1] or match[2]) if match else 0
