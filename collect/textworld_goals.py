"""Goals in words as conditions that a program can check: what is to be done to which food, dish or gate.

Invariant: a goal that names no food, dish or gate together with something that can be seen to be done to it has no
conditions (None), so that it is never judged by a guess. A node is judged by the deltas of its own and its committed
descendants' actions: what held before it started counts for nothing, and neither does what a sibling did meanwhile.

A condition is a pair [kind, name]; ``not `` before the kind means that the node must not have done it itself.
Run: ``conditions_of(kitchen, "chop and fry the carrot")`` gives [["chopped", "carrot"], ["fried", "carrot"]].
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collect.textworld_kitchen import Kitchen
from collect.textworld_rules import ready_foods
from collect.textworld_spec import COOKINGS, CUTS
from collect.textworld_state import WorldState
from collect.textworld_words import DEVICES, LOOSE, VERBS, tokens
from collect.world import Verdict

WHOLE_TASK = "task"
GATE = "gate"
LISTS = ("taken", "dropped", "placed", "ready", "spoiled", "deleted", "prepared", "eaten")
WORDS = ("cut", "cooked")


def conditions_of(kitchen: Kitchen, goal: str) -> list[list[str]] | None:
    """Conditions that the goal names, in the order of the text; None when it names nothing checkable."""
    reading = _Reading(kitchen)
    for match in tokens(kitchen.things, kitchen.spec.dishes).finditer(" ".join(goal.split(" ")).lower()):
        kind = match.lastgroup
        assert kind is not None
        reading.take(kind, match)
    reading.stop()
    found = [condition for condition in reading.found if condition[1] not in reading.excluded]
    return found if any(not kind.startswith("not ") for kind, _ in found) else None


def judge(start: WorldState, conditions: Sequence[Sequence[str]], changes: Sequence[Mapping[str, Any]]) -> Verdict:
    """Success when every condition that did not hold at the start was brought about by the changes, at least one of
    them, nothing forbidden was done and no food of a recipe was spoiled or lost."""
    own = merged(changes)
    held = holding(start)
    met, missing, already, broken = [], [], [], []
    for kind, name in conditions:
        if kind.startswith("not "):
            if _done(own, kind.removeprefix("not "), name):
                broken.append([kind, name])
        elif _done(own, kind, name):
            met.append([kind, name])
        elif _done(held, kind, name):
            already.append([kind, name])
        else:
            missing.append([kind, name])
    foods = {food.name for food in start.kitchen.spec.foods}
    lost = [name for key in ("spoiled", "deleted") for name in own.get(key, ()) if name in foods]
    details = {"met": met, "missing": missing, "already": already, "broken": broken, "lost": lost}
    return Verdict(bool(met) and not missing and not broken and not lost, details)


def merged(changes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several deltas as one, without the rooms: each name once per key, the last word for each food."""
    found: dict[str, Any] = {}
    for change in changes:
        for key, value in change.items():
            if key in LISTS:
                names = found.setdefault(key, [])
                names += [name for name in value if name not in names]
            elif key in WORDS:
                found.setdefault(key, {}).update(value)
            elif key == GATE:
                found[key] = value
    return found


def holding(state: WorldState) -> dict[str, Any]:
    """What holds in a state, in the form of a delta."""
    kitchen = state.kitchen
    masks = {"taken": state.taken, "ready": ready_foods(state), "placed": state.counter}
    found: dict[str, Any] = {
        key: [name for i, name in enumerate(kitchen.things) if mask >> i & 1] for key, mask in masks.items()
    }
    for key, mask in (("prepared", state.prepared), ("eaten", state.eaten)):
        found[key] = [name for i, name in enumerate(kitchen.spec.dishes) if mask >> i & 1]
    for key, words, values in (("cut", CUTS, state.cut), ("cooked", COOKINGS, state.cooked)):
        found[key] = {n: words[values >> 2 * i & 3] for i, n in enumerate(kitchen.things) if values >> 2 * i & 3}
    if state.gate:
        found[GATE] = "open"
    return found


def _done(facts: Mapping[str, Any], kind: str, name: str) -> bool:
    if kind == GATE:
        return facts.get(GATE) == "open"
    if kind in WORDS:
        return name in facts.get(kind, {})
    if kind in CUTS:
        return bool(facts.get("cut", {}).get(name) == kind)
    if kind in COOKINGS:
        return bool(facts.get("cooked", {}).get(name) == kind)
    return name in facts.get(kind, ())


@dataclass(slots=True)
class _Reading:
    """A goal being read: verbs in force, what they were last said of, conditions so far."""

    kitchen: Kitchen
    found: list[list[str]] = field(default_factory=list)
    excluded: set[str] = field(default_factory=set)
    verbs: list[str] = field(default_factory=list)
    fresh: bool = False  # the last verb still waits for its object
    objects: list[tuple[str, str]] = field(default_factory=list)  # (food, name) or (dish, name) that were named last
    group: list[tuple[str, str]] = field(default_factory=list)  # all that the last verb was said of
    dish: str | None = None  # the dish named last
    negative: bool = False
    excluding: bool = False
    foods_of: bool = False  # "ingredients of" was read: the next dish means its foods
    grouping: bool = False  # the dishes named last stood for their foods
    qualified: bool = False
    bracket: bool = False

    def take(self, kind: str, match: re.Match[str]) -> None:
        text = match.group()
        if kind == "stop":
            self.stop()
        elif kind == "comma":
            if self.negative and not self.fresh:
                self.negative = False
            self.excluding = False
        elif kind == "colon":
            if self.fresh and self.verbs[-1] in ("complete", "look"):  # "do the following: ..."
                self.verbs, self.fresh = [], False
        elif kind == "device":
            if "cook" in self.verbs and not self.fresh:
                self._add(DEVICES[text.split()[-1]], self.objects)
        elif kind == "counter":
            if self.verbs and not self.fresh:
                self._add("place", self.objects)
        elif kind.startswith("verb_"):
            self._verb(kind.removeprefix("verb_"), text)
        elif kind == "no":
            self._flush()
            self.negative = True
        elif kind == "except":
            self.excluding = True
        elif kind == "bracket":
            self.bracket = True
        elif kind == "qualifier":
            self.qualified = True
        elif kind == "them":
            self._say(list(self.objects if text == "it" else self.group), again=True)
        elif kind in ("foods", "every_food"):
            self._foods(everything=kind == "every_food")
        else:
            self._name(kind, text)
            self.qualified = self.bracket = False

    def stop(self) -> None:
        """End of a clause: a verb without an object is said of what was named last; negation ends."""
        self._flush()
        if self.foods_of:
            self.foods_of = False
            self._say([("food", food.name) for food in self.kitchen.spec.foods])
        self.verbs, self.negative, self.excluding = [], False, False
        self.bracket = self.qualified = self.grouping = False

    def _verb(self, stem: str, text: str) -> None:
        participle = text.endswith(("ed", "en")) or text in ("fried", "cut", "ready")
        if participle and self.objects and (self.bracket or not self.fresh or text == "ready"):
            # "carrot (fried, diced)" speaks of the carrot, "carrot and onion are diced" of both
            self._add(stem, self.objects if self.bracket else self.group)
            self.fresh = self.fresh and text != "ready"
            return
        self.bracket = self.grouping = False
        if not self.fresh:
            self.verbs = []
        self.verbs.append(stem)
        self.fresh = True

    def _foods(self, *, everything: bool) -> None:
        dishes = [name for kind, name in self.objects if kind == "dish"]
        if not self.fresh and dishes and len(dishes) == len(self.objects):
            self._as_foods(dishes)  # "prepare dish_1's ingredients"
        elif everything or self.fresh:
            self.foods_of = True

    def _as_foods(self, dishes: list[str]) -> None:
        for stem in self.verbs:
            asked = [[self._kind(kind), dish] for dish in dishes for kind in VERBS[stem].of_dish]
            self.found = [condition for condition in self.found if condition not in asked]
        self._say(self._foods_in(dishes))

    def _foods_in(self, dishes: list[str]) -> list[tuple[str, str]]:
        spec = self.kitchen.spec
        return [("food", food.name) for food in spec.foods if spec.dishes[food.dish] in dishes]

    def _name(self, kind: str, text: str) -> None:
        if kind == "gate":
            if "open" in self.verbs:
                self._push([self._kind(GATE), GATE])
                self.fresh = False
            return
        if kind == "thing":
            name = text if text in self.kitchen.things else text.removesuffix("s")
            self.foods_of = self.grouping = False
            if self.excluding:
                self.excluded.add(name)
            else:
                self._say([("food", name)])
            return
        known = self.kitchen.spec.dishes
        number = re.sub(r"\D", "", text)
        named = text if text in known else f"dish_{number}" if number else self.dish
        dishes = list(known) if kind == "all_dishes" else [named] if named in known else []
        self.dish = dishes[-1] if dishes else self.dish
        if self.foods_of or self.grouping:
            self._say(self._foods_in(dishes))
            self.foods_of, self.grouping = False, True
        elif not (self.qualified and not self.fresh and self.objects):
            self._say([("dish", dish) for dish in dishes])

    def _say(self, objects: list[tuple[str, str]], *, again: bool = False) -> None:
        """The verbs in force are said of these objects."""
        if not objects:
            return
        for stem in self.verbs:
            self._add(stem, objects)
        self.group = objects if again or self.fresh else [*self.group, *objects]
        self.objects = objects
        self.fresh = False

    def _flush(self) -> None:
        loose = self.negative or self.foods_of or not self.verbs or self.verbs[-1] in LOOSE
        if self.fresh and self.objects and not loose:
            self._say(list(self.objects), again=True)
        self.fresh = False

    def _add(self, stem: str, objects: list[tuple[str, str]]) -> None:
        for kind, name in objects:
            for asked in VERBS[stem].of_food if kind == "food" else VERBS[stem].of_dish:
                self._push([self._kind(asked), name])

    def _kind(self, kind: str) -> str:
        return f"not {kind}" if self.negative else kind

    def _push(self, condition: list[str]) -> None:
        if condition not in self.found:
            self.found.append(condition)
