"""What agents do under per-agent rules of TextWorld-Sync: carry, cut, cook, place, eat, each with its own hands.

Invariant: a thing is in one place - a room, the counter, one agent's hands, or gone; only what is in an agent's own
hands can be worked on, with the knife in the same hands and the device in the same room; a refusal names its reason.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Any

from collect.textworld_kitchen import COOKING, KNIFE, Command
from collect.textworld_rules import Handler, Outcome, Rules, is_ready, knife_is_cool, listed
from collect.textworld_spec import COOKINGS, CUTS, ROOMS
from collect.textworld_state import COUNTER, GONE, HELD, TOOLS, WorldState, bits, moved, ticked
from collect.world import Event

KITCHEN, GARDEN = ROOMS.index("kitchen"), ROOMS.index("garden")
DEVICES = {1: KITCHEN, 2: KITCHEN, 3: GARDEN}  # room of the stove, the oven and the grill, by index into TOOLS
BEHIND_GATE = frozenset((GARDEN, ROOMS.index("supermarket")))


class HandRules(Rules, ABC):
    """Transitions of rules in which every agent has hands of its own."""

    def make_handlers(self) -> Mapping[str, Handler]:
        """One function a verb."""
        return {
            "look": _look,
            "inventory": _inventory,
            "cookbook": self._cookbook,
            "wait": _wait,
            "go": self._go,
            "open": self._open,
            "take knife": self._take_knife,
            "drop knife": self._drop_knife,
            "take": self._take,
            "drop": self._drop,
            "put": self._put,
            "cut": self._cut,
            "cook": self._cook,
            "eat thing": self._eat_thing,
            "prepare": self._prepare,
            "eat": self._eat,
        }

    def refused(self, state: WorldState, reason: str) -> Outcome:
        """A command that is not done: costs a step, says why."""
        return self.charged(state, ok=False, text=f"Refused: {reason}.", feedback="rejected")

    def _cookbook(self, state: WorldState, slot: int, command: Command) -> Outcome:
        if state.rooms[slot] != KITCHEN:
            return self.refused(state, "the cookbook is in the kitchen")
        spec = state.kitchen.spec
        dishes = [
            f"{dish}: {', '.join(food.wanted for food in spec.foods if food.dish == i)}"
            for i, dish in enumerate(spec.dishes)
        ]
        return state, Event(True, "The cookbook says: " + "; ".join(dishes) + ".", None, "info")

    def _go(self, state: WorldState, slot: int, command: Command) -> Outcome:
        room = command.number
        if room == state.rooms[slot]:
            return self.refused(state, f"you are in the {ROOMS[room]} already")
        if not state.gate and room in BEHIND_GATE:
            return self.refused(state, f"the gate to the {ROOMS[room]} is closed")
        rooms = moved(state.rooms, slot, room)
        return self.done(state, f"You go to the {ROOMS[room]}.", {"room": ROOMS[room]}, {"rooms": rooms})

    def _open(self, state: WorldState, slot: int, command: Command) -> Outcome:
        if state.gate:
            return self.refused(state, "the gate is open")
        if state.rooms[slot] != KITCHEN:
            return self.refused(state, "the gate is opened from the kitchen")
        return self.done(state, "You open the gate for everybody.", {"gate": "open"}, {"gate": True})

    def _take_knife(self, state: WorldState, slot: int, command: Command) -> Outcome:
        if state.places[-1] != state.rooms[slot]:
            return self.refused(state, "you have the knife" if state.places[-1] == HELD - slot else "no knife is here")
        places = (*state.places[:-1], HELD - slot)
        return self.done(state, "You take the knife.", {"taken": ["knife"]}, {"places": places})

    def _drop_knife(self, state: WorldState, slot: int, command: Command) -> Outcome:
        if state.places[-1] != HELD - slot:
            return self.refused(state, "you do not have the knife")
        places = (*state.places[:-1], state.rooms[slot])
        return self.done(state, "You put the knife down.", {"dropped": ["knife"]}, {"places": places})

    def _take(self, state: WorldState, slot: int, command: Command) -> Outcome:
        i, kitchen, place = command.number, state.kitchen, state.places[command.number]
        name, bit = kitchen.things[i], 1 << command.number
        if place != state.rooms[slot] and not (place == COUNTER and state.rooms[slot] == KITCHEN):
            return self.refused(state, f"you hold the {name}" if place == HELD - slot else f"no {name} is here")
        if kept(state, i):
            return self.refused(state, f"the {name} is locked away until the door is open")
        if kitchen.capacity and len(carried(state, slot)) >= kitchen.capacity:
            return self.refused(state, f"your hands are full, they hold {kitchen.capacity}")
        delta = {"taken": [name]}
        if not state.taken & bit and bit & kitchen.all_foods and is_ready(kitchen, i, state.cut, state.cooked):
            delta["ready"] = [name]
        changes = {
            "taken": state.taken | bit,
            "held": (*state.held, i),
            "places": moved(state.places, i, HELD - slot),
            "counter": state.counter & ~bit,
        }
        return self.done(state, f"You take the {name}.", delta, changes)

    def _drop(self, state: WorldState, slot: int, command: Command) -> Outcome:
        i = command.number
        name = state.kitchen.things[i]
        if state.places[i] != HELD - slot:
            return self.refused(state, f"you do not hold the {name}")
        return self.done(state, f"You put the {name} down.", {"dropped": [name]}, _laid(state, i, state.rooms[slot]))

    def _put(self, state: WorldState, slot: int, command: Command) -> Outcome:
        i = command.number
        name = state.kitchen.things[i]
        if state.places[i] != HELD - slot:
            return self.refused(state, f"you do not hold the {name}")
        if state.rooms[slot] != KITCHEN:
            return self.refused(state, "the counter is in the kitchen")
        changes = {**_laid(state, i, COUNTER), "counter": state.counter | 1 << i}
        return self.done(state, f"You put the {name} on the counter.", {"placed": [name]}, changes)

    def _cut(self, state: WorldState, slot: int, command: Command) -> Outcome:
        i, value = command.number, command.value
        name, hand = state.kitchen.things[i], HELD - slot
        if state.places[i] != hand:
            return self.refused(state, f"you do not hold the {name}")
        if state.places[-1] != hand:
            return self.refused(state, "you need the knife in your hands")
        if state.cut >> 2 * i & 3:
            return self.refused(state, f"the {name} is {CUTS[state.cut >> 2 * i & 3]} already")
        if not knife_is_cool(state):
            return self.refused(state, "the knife was just used, wait")
        delta: dict[str, Any] = {"cut": {name: CUTS[value]}}
        changes = {"cut": state.cut | value << 2 * i}
        wrong = value != state.kitchen.wanted_cut >> 2 * i & 3
        return self._processed(state, i, changes, f"The {name} is {CUTS[value]}.", delta, tool=KNIFE, wrong=wrong)

    def _cook(self, state: WorldState, slot: int, command: Command) -> Outcome:
        i, value = command.number, command.value
        name = state.kitchen.things[i]
        if state.places[i] != HELD - slot:
            return self.refused(state, f"you do not hold the {name}")
        if state.rooms[slot] != DEVICES[value]:
            return self.refused(state, f"the {TOOLS[value]} is in the {ROOMS[DEVICES[value]]}")
        if state.cooked >> 2 * i & 3:
            return self.refused(state, f"the {name} is {COOKINGS[state.cooked >> 2 * i & 3]} already")
        if state.cool[value]:
            return self.refused(state, f"the {TOOLS[value]} was just used, wait")
        delta: dict[str, Any] = {"cooked": {name: COOKINGS[value]}}
        changes = {"cooked": state.cooked | value << 2 * i}
        wrong = value != state.kitchen.wanted_cooking >> 2 * i & 3
        text = f"The {name} is {COOKINGS[value]} {COOKING[value]}."
        return self._processed(state, i, changes, text, delta, tool=value, wrong=wrong)

    def _processed(
        self,
        state: WorldState,
        i: int,
        changes: dict[str, Any],
        text: str,
        delta: dict[str, Any],
        *,
        tool: int,
        wrong: bool,
    ) -> Outcome:
        name, bit = state.kitchen.things[i], 1 << i
        if bit & state.kitchen.all_foods:
            if wrong:
                delta["spoiled"] = [name]
                changes["spoiled"] = state.spoiled | bit
                text += " That is not how the recipe wants it."
            elif is_ready(state.kitchen, i, changes.get("cut", state.cut), changes.get("cooked", state.cooked)):
                delta["ready"] = [name]
        return self.done(state, text, delta, changes, tool=tool)

    def _eat_thing(self, state: WorldState, slot: int, command: Command) -> Outcome:
        i = command.number
        name = state.kitchen.things[i]
        if state.places[i] != HELD - slot:
            return self.refused(state, f"you do not hold the {name}")
        changes = {**_laid(state, i, GONE), "deleted": state.deleted | 1 << i}
        return self.done(state, f"You eat the {name}; it is gone.", {"deleted": [name]}, changes)

    def _prepare(self, state: WorldState, slot: int, command: Command) -> Outcome:
        i, kitchen = command.number, state.kitchen
        dish, foods = kitchen.spec.dishes[i], kitchen.dish_foods[i]
        if state.prepared >> i & 1:
            return self.refused(state, f"{dish} is prepared")
        if state.rooms[slot] != KITCHEN:
            return self.refused(state, "dishes are prepared in the kitchen")
        if state.counter & foods != foods:
            missing = [kitchen.things[j] for j in bits(foods & ~state.counter)]
            return self.refused(state, f"not on the counter: {', '.join(missing)}")
        wrong = [j for j in bits(foods) if not is_ready(kitchen, j, state.cut, state.cooked)]
        delta: dict[str, Any] = {"prepared": [dish]}
        changes: dict[str, Any] = {
            "prepared": state.prepared | 1 << i,
            "counter": state.counter & ~foods,
            "places": tuple(GONE if foods >> j & 1 else place for j, place in enumerate(state.places)),
        }
        text = f"You prepare {dish}."
        if wrong:
            names = [kitchen.things[j] for j in wrong]
            delta["spoiled"] = names
            changes["spoiled"] = state.spoiled | sum(1 << j for j in wrong)
            text += f" That is not how the recipe wants it: {', '.join(names)}."
        return self.done(state, text, delta, changes)

    def _eat(self, state: WorldState, slot: int, command: Command) -> Outcome:
        i = command.number
        dish = state.kitchen.spec.dishes[i]
        if not (state.prepared & ~state.eaten) >> i & 1:
            return self.refused(state, f"{dish} is not there to be eaten")
        if state.rooms[slot] != KITCHEN:
            return self.refused(state, "dishes are eaten in the kitchen")
        return self.done(state, f"You eat {dish}.", {"eaten": [dish]}, {"eaten": state.eaten | 1 << i})


def _look(state: WorldState, slot: int, command: Command) -> Outcome:
    return state, Event(True, "You look around.", None, "info")


def _inventory(state: WorldState, slot: int, command: Command) -> Outcome:
    mine = [shown(state, i) for i in carried(state, slot)] + ["knife"] * (state.places[-1] == HELD - slot)
    return state, Event(True, f"You carry: {listed(mine)}.", None, "info")


def _wait(state: WorldState, slot: int, command: Command) -> Outcome:
    """Free of the shared budget; tools cool down."""
    return state._replace(cool=ticked(state.cool)), Event(True, "You wait.", None, "ok")


def _laid(state: WorldState, i: int, place: int) -> dict[str, Any]:
    """Changes by which a thing leaves the hands for a place."""
    return {"places": moved(state.places, i, place), "held": tuple(j for j in state.held if j != i)}


def carried(state: WorldState, slot: int) -> list[int]:
    """Things in the hands of the agent in a slot, in the order it took them."""
    hand, places = HELD - slot, state.places
    return [i for i in state.held if places[i] == hand]


def kept(state: WorldState, i: int) -> bool:
    """Whether a closed gate keeps a thing that nobody has taken yet."""
    return not state.gate and bool(state.kitchen.gated >> i & 1) and not state.taken >> i & 1


def within_reach(state: WorldState, room: int) -> list[int]:
    """Things that can be taken in a room, in the kitchen also from the counter."""
    return [
        i
        for i, place in enumerate(state.places[:-1])
        if (place == room or (place == COUNTER and room == KITCHEN)) and not kept(state, i)
    ]


def shown(state: WorldState, i: int) -> str:
    """``carrot (chopped, fried)``: what can be seen of a thing."""
    cut, cooked = state.cut >> 2 * i & 3, state.cooked >> 2 * i & 3
    marks = [word for word in (CUTS[cut] if cut else "", COOKINGS[cooked] if cooked else "") if word]
    return state.kitchen.things[i] + (f" ({', '.join(marks)})" if marks else "")
