"""An honest solver of TextWorld-Sync, profile `strict`: it reads its goal and, when that is coarse, the cookbook.

Invariant: pure, and it uses only what its agent was shown: the goal's text, the cookbook's text, and of each state the
room it stood in, its own hands, the counter, the gate, the cool-downs. What it remembers are its notes.

Use: ``notes = Notes.of(goal)``; each turn ``notes.see(state, agent)``, then ``solve(state, agent, notes)`` gives the
command or None when its dishes are eaten; after a command ``notes.hear(text)`` with what came back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from collect.textworld_hands import BEHIND_GATE, DEVICES, GARDEN, KITCHEN
from collect.textworld_kitchen import COOKING, CUTTING
from collect.textworld_spec import COOKINGS, CUTS, ROOMS
from collect.textworld_state import COUNTER, HELD, WorldState, slot_of
from collect.world import Agent

RECIPE = re.compile(
    rf"(?P<dish>dish_\d+)|(?P<food>[a-z][a-z ]*?) \((?P<cooking>{'|'.join(COOKINGS)}), (?P<cut>{'|'.join(CUTS)})\)"
)
DISH = re.compile(r"dish_\d+")


class Wanted(NamedTuple):
    """How a food is wanted: indices into CUTS and COOKINGS."""

    cut: int
    cooking: int


@dataclass(slots=True)
class Notes:
    """Memory of one solver: its dishes, their recipes, where it saw things last, rooms it has been in.

    lends: others work beside it, so it takes the knife for each cut only and puts it down at once.
    """

    dishes: tuple[str, ...]
    recipes: dict[str, dict[str, Wanted]] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    visited: set[int] = field(default_factory=set)
    lends: bool = False

    @classmethod
    def of(cls, goal: str, *, lends: bool = False) -> Notes:
        """Notes of an agent that has read its goal: the dishes it names and the preparations it gives."""
        notes = cls(tuple(dict.fromkeys(DISH.findall(goal))), lends=lends)
        notes.hear(goal)
        return notes

    def hear(self, text: str) -> None:
        """Take in the recipes of a text."""
        self.recipes.update(read_recipes(text))

    def see(self, state: WorldState, agent: Agent) -> None:
        """Take in what the agent is shown of a state."""
        slot = slot_of(state, agent.node_id)
        room = state.rooms[slot]
        self.visited.add(room)
        self.seen = {name: place for name, place in self.seen.items() if place != room}
        for i, name in enumerate((*state.kitchen.things, "knife")):
            locked = name != "knife" and not state.gate and state.kitchen.gated & ~state.taken & 1 << i
            if state.places[i] == room and not locked:
                self.seen[name] = room

    def knows_all(self) -> bool:
        """Whether it has a recipe for each of its dishes."""
        return bool(self.dishes) and all(self.recipes.get(dish) for dish in self.dishes)


def read_recipes(text: str) -> dict[str, dict[str, Wanted]]:
    """Recipes that a text spells out, ``food (cooking, cutting)`` after the name of a dish."""
    found: dict[str, dict[str, Wanted]] = {}
    dish = None
    for match in RECIPE.finditer(text):
        if match["dish"]:
            dish = match["dish"]
        elif dish is not None:
            wanted = Wanted(CUTS.index(match["cut"]), COOKINGS.index(match["cooking"]))
            found.setdefault(dish, {})[match["food"].strip()] = wanted
    return found


def solve(state: WorldState, agent: Agent, notes: Notes) -> str | None:
    """The next command towards the noted dishes, or None when they are eaten."""
    sight = _Sight.of(state, agent)
    open_dishes = [dish for dish in notes.dishes if not sight.is_eaten(dish)]
    if notes.dishes and not open_dishes:
        return None
    if not notes.knows_all():
        return "read cookbook" if sight.room == KITCHEN else "go to kitchen"
    wanted = {
        name: how for dish in open_dishes if not sight.is_prepared(dish) for name, how in notes.recipes[dish].items()
    }
    todo = {name: how for name, how in wanted.items() if name not in sight.counter}
    return (
        _serve(sight, notes, open_dishes)
        or _handle_knife(sight, notes, todo)
        or _work_here(sight, todo)
        or _pick_up(sight, todo)
        or _carry_on(sight, notes, todo)
        or _fetch(sight, notes, todo)
    )


@dataclass(frozen=True, slots=True)
class _Sight:
    """What an agent is shown of a state."""

    state: WorldState
    slot: int
    room: int
    mine: tuple[str, ...]
    here: tuple[str, ...]
    counter: frozenset[str]
    knife: bool

    @classmethod
    def of(cls, state: WorldState, agent: Agent) -> _Sight:
        slot = slot_of(state, agent.node_id)
        room, things, places = state.rooms[slot], state.kitchen.things, state.places
        locked = 0 if state.gate else state.kitchen.gated & ~state.taken
        return cls(
            state,
            slot,
            room,
            tuple(things[i] for i in state.held if places[i] == HELD - slot),
            tuple(name for i, name in enumerate(things) if places[i] == room and not locked >> i & 1),
            frozenset(name for i, name in enumerate(things) if places[i] == COUNTER),
            places[-1] == HELD - slot,
        )

    def is_prepared(self, dish: str) -> bool:
        return bool(self.state.prepared >> self.state.kitchen.spec.dishes.index(dish) & 1)

    def is_eaten(self, dish: str) -> bool:
        return bool(self.state.eaten >> self.state.kitchen.spec.dishes.index(dish) & 1)

    def lacks(self, name: str, how: Wanted) -> Wanted:
        """What is still to be done to a thing: 0 for what is done or not wanted."""
        i = self.state.kitchen.things.index(name)
        cut, cooked = self.state.cut >> 2 * i & 3, self.state.cooked >> 2 * i & 3
        return Wanted(0 if cut else how.cut, 0 if cooked else how.cooking)


def _serve(sight: _Sight, notes: Notes, dishes: list[str]) -> str | None:
    if sight.room != KITCHEN:
        return None
    for dish in dishes:
        if sight.is_prepared(dish):
            return f"eat {dish}"
        if all(name in sight.counter for name in notes.recipes[dish]):
            return f"prepare {dish}"
    return None


def _handle_knife(sight: _Sight, notes: Notes, todo: Mapping[str, Wanted]) -> str | None:
    """Take the knife that lies here when it is needed, or needed right now by one who lends it; put it down after."""
    names = [name for name in todo if name in sight.mine] if notes.lends else list(todo)
    needed = any(sight.lacks(name, todo[name]).cut for name in names)
    if notes.lends and sight.knife and not needed:
        return "drop knife"
    return "take knife" if needed and sight.state.places[-1] == sight.room else None


def _work_here(sight: _Sight, todo: Mapping[str, Wanted]) -> str | None:
    """Cut, cook or place what is in hands; wait when only a cool-down stands in the way."""
    cool, waiting = sight.state.cool, False
    for name in sight.mine:
        if name not in todo:
            return f"drop {name}"
        lacks = sight.lacks(name, todo[name])
        if lacks.cut and sight.knife:
            if not cool[0]:
                return f"{CUTTING[lacks.cut]} {name}"
            waiting = True
        if lacks.cooking and DEVICES[lacks.cooking] == sight.room:
            if not cool[lacks.cooking]:
                return f"cook {name} {COOKING[lacks.cooking]}"
            waiting = True
        if lacks == (0, 0) and sight.room == KITCHEN:
            return f"put {name} on counter"
    return "wait" if waiting else None


def _pick_up(sight: _Sight, todo: Mapping[str, Wanted]) -> str | None:
    capacity = sight.state.kitchen.capacity
    if capacity and len(sight.mine) >= capacity:
        return None
    return next((f"take {name}" for name in sight.here if name in todo), None)


def _carry_on(sight: _Sight, notes: Notes, todo: Mapping[str, Wanted]) -> str | None:
    """Go where the next thing can be done to what is in hands."""
    needs = [sight.lacks(name, todo[name]) for name in sight.mine]
    if not needs:
        return None
    if any(lacks.cut for lacks in needs) and not sight.knife:
        place = notes.seen.get("knife", KITCHEN)
        return "wait" if place == sight.room else _way(sight, place)  # another has it; it comes back to the kitchen
    places = [DEVICES[lacks.cooking] for lacks in needs if lacks.cooking]
    if any(place != KITCHEN for place in places) and not _more_to_fetch(sight, notes, todo):
        return _way(sight, GARDEN)
    if sight.state.kitchen.capacity == 0 and _more_to_fetch(sight, notes, todo):
        return None
    return _way(sight, places[0] if places else KITCHEN)


def _more_to_fetch(sight: _Sight, notes: Notes, todo: Mapping[str, Wanted]) -> bool:
    """Whether free hands could still pick something up on the way."""
    capacity = sight.state.kitchen.capacity
    free = not capacity or len(sight.mine) < capacity
    return free and any(name not in sight.mine for name in todo)


def _fetch(sight: _Sight, notes: Notes, todo: Mapping[str, Wanted]) -> str:
    """Go to a thing that was seen, else look into rooms in the order in which food is likely."""
    away = [name for name in todo if name not in sight.mine]
    places = {notes.seen[name] for name in away if name in notes.seen}
    if not away:
        return _way(sight, KITCHEN)
    for room in range(len(ROOMS)):
        if room in places:
            return _way(sight, room)
    unseen = [room for room in range(sight.state.kitchen.spec.n_rooms) if room not in notes.visited]
    if not sight.state.gate and (sight.state.kitchen.gated or not set(unseen) - BEHIND_GATE or 1 in notes.visited):
        return _way(sight, GARDEN)
    if not unseen:
        return "wait"
    return _way(sight, unseen[0])


def _way(sight: _Sight, room: int) -> str:
    """The command that leads to a room, through the gate when it is closed."""
    if room in BEHIND_GATE and not sight.state.gate:
        return "open door" if sight.room == KITCHEN else "go to kitchen"
    return f"go to {ROOMS[room]}"
