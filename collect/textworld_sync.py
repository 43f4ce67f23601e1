"""Profile `sync-v9`: the published rules of TextWorld-Sync, version 9, with their holes.

Invariant: what is accepted, what it changes and what it costs is as published: hands are shared, cutting and cooking
work in any room on anybody's foods, only preparations that the recipe wants are ever accepted, finished foods go to the
counter by themselves, a refused command costs a step, and commands are applied even after the end. Names of commands
are the protocol's; all sentences are our own. Source: SERA paper (arXiv 2610.04902), public environment version 9.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from collect import textworld_kitchen as kitchens
from collect.textworld_kitchen import COOKING, KNIFE, Command, Kitchen
from collect.textworld_rules import (
    Handler,
    Outcome,
    Rules,
    all_done,
    command_line,
    cooling,
    is_ready,
    knife_is_cool,
    listed,
    ready_foods,
    room_of,
)
from collect.textworld_spec import COOKINGS, CUTS, ROOMS, WorldSpec, read_spec
from collect.textworld_state import COOL, WorldState, bits, left
from collect.world import End, Event

COMPASS = {"north": "pantry", "south": "dining room", "east": "garden", "west": "supermarket"}
LOOK = Command("look", "look around")
INVENTORY = Command("inventory", "inventory")
COOKBOOK = Command("cookbook", "read cookbook")
OPEN = Command("open", "open door")
TAKE_KNIFE = Command("take knife", "take knife")


def build(source: str) -> Kitchen:
    """The kitchen of a spec's source text, from memory when this process has it."""
    parts = json.loads(source)
    return SYNC.kitchen(read_spec(parts["body"], seed=parts["seed"]))


class SyncRules(Rules):
    """The published rules."""

    profile = "sync-v9"

    def kitchen(self, spec: WorldSpec) -> Kitchen:
        """Things are the recipes' foods in the first room that each may come from."""
        known = kitchens.kept(self.profile, spec.digest)
        if known is not None:
            return known
        names = tuple(food.name for food in spec.foods)
        taking, cutting, cooking = kitchens.thing_commands(names)
        preparing, eating = kitchens.dish_commands(spec.dishes)
        rooms = tuple(Command("go", f"go to {room}", i) for i, room in enumerate(spec.rooms))
        moves = tuple(
            Command("go", f"move {way}", ROOMS.index(room)) for way, room in COMPASS.items() if room in spec.rooms
        )
        fixed = (LOOK, INVENTORY, COOKBOOK, OPEN, TAKE_KNIFE)
        return kitchens.keep(
            Kitchen(
                spec=spec,
                profile=self.profile,
                digest=spec.digest,
                things=names,
                places=(*(food.rooms[0] for food in spec.foods), 0),
                capacity=int(spec.limited) if spec.shared_capacity is None else spec.shared_capacity,
                gated=kitchens.gated_foods(spec),
                dish_foods=kitchens.dish_masks(spec),
                all_foods=(1 << len(names)) - 1,
                all_dishes=(1 << len(spec.dishes)) - 1,
                wanted_cut=kitchens.wanted_cuts(spec),
                wanted_cooking=kitchens.wanted_cookings(spec),
                commands=kitchens.table(fixed, rooms, moves, taking, *cutting, *cooking, preparing, eating),
                going=tuple(tuple(c for c in (*rooms, *moves) if c.number != room) for room in range(spec.n_rooms)),
                taking=taking,
                cutting=cutting,
                cooking=cooking,
                preparing=preparing,
                eating=eating,
                built_by=build,
            )
        )

    def limit(self, shared_steps: int) -> int:
        """The published budget."""
        return shared_steps

    def start(self, kitchen: Kitchen, limit: int) -> WorldState:
        """Nothing collected; the gate is open when the task has no doors."""
        gate = not kitchen.spec.doors
        return WorldState(kitchen, (), (), (), (), 0, 0, 0, 0, 0, 0, 0, 0, gate, COOL, 0, limit)

    def leave(self, state: WorldState, slot: int) -> WorldState:
        """The room is forgotten, the shared hands keep what they hold."""
        return left(state, slot)

    def over(self, state: WorldState) -> End | None:
        """Success whenever all dishes are eaten, even late; else exhausted when the budget is spent."""
        if all_done(state):
            return "success"
        return "exhausted" if state.steps >= state.limit else None

    def commands(self, state: WorldState, slot: int) -> list[Command]:
        """In the published order."""
        kitchen = state.kitchen
        room = state.rooms[slot]
        found = [LOOK, INVENTORY, COOKBOOK, *kitchen.going[room]]
        if not state.gate:
            found.append(OPEN)
        if room == 0:
            found.append(TAKE_KNIFE)
        if not _full(state):
            found += [kitchen.taking[i] for i in _reachable(state, room)]
        cool = state.cool
        for i in state.held:
            food = kitchen.spec.foods[i]
            if food.cut and not state.cut >> 2 * i & 3 and knife_is_cool(state):
                found.append(kitchen.cutting[i][food.cut - 1])
            if food.cooking and not state.cooked >> 2 * i & 3 and not cool[food.cooking]:
                found.append(kitchen.cooking[i][food.cooking - 1])
        for i, foods in enumerate(kitchen.dish_foods):
            if not state.prepared >> i & 1 and state.counter & foods == foods:
                found.append(kitchen.preparing[i])
        found += [kitchen.eating[i] for i in bits(state.prepared & ~state.eaten)]
        return found

    def make_handlers(self) -> Mapping[str, Handler]:
        """One function a verb."""
        return {
            "look": self._look,
            "inventory": self._inventory,
            "cookbook": self._cookbook,
            "go": self._go,
            "open": self._open,
            "take knife": self._take_knife,
            "take": self._take,
            "cut": self._cut,
            "cook": self._cook,
            "prepare": self._prepare,
            "eat": self._eat,
        }

    def unknown(self, state: WorldState, slot: int, text: str) -> Outcome:
        """Costs a step and says nothing more than that."""
        return self._refused(state)

    def observe(self, state: WorldState, slot: int) -> str:
        """Room, what lies there, gate, cool-downs, counter, dishes, steps left, commands; not what is in hands."""
        kitchen = state.kitchen
        ready = ready_foods(state)
        dishes = [
            f"- {dish}: {(ready & mask).bit_count()} of {mask.bit_count()} foods ready, "
            f"prepared: {_yes(state.prepared >> i & 1)}, eaten: {_yes(state.eaten >> i & 1)}"
            for i, (dish, mask) in enumerate(zip(kitchen.spec.dishes, kitchen.dish_foods, strict=True))
        ]
        lines = [
            f"Room: {room_of(state, slot)}",
            f"You see: {listed([kitchen.things[i] for i in _reachable(state, state.rooms[slot])])}",
            f"Gate of the shared kitchen: {'open' if state.gate else 'closed'}",
            f"Tools cooling down: {cooling(state)}",
            f"Prepared counter: {listed(sorted(kitchen.things[i] for i in bits(state.counter)), empty='(empty)')}",
            "Dishes:",
            *dishes,
            f"Shared steps left: {max(0, state.limit - state.steps)}",
            command_line(self.commands(state, slot)),
        ]
        return "\n".join(lines)

    def _refused(self, state: WorldState) -> Outcome:
        return self.charged(state, ok=False, text="That cannot be done here and now.", feedback="rejected")

    def _look(self, state: WorldState, slot: int, command: Command) -> Outcome:
        return self.charged(state, ok=True, text="You look around.", feedback="info")

    def _inventory(self, state: WorldState, slot: int, command: Command) -> Outcome:
        held = listed([state.kitchen.things[i] for i in state.held], empty="(empty)")
        return state, Event(True, f"In the shared hands: {held}.", None, "info")

    def _cookbook(self, state: WorldState, slot: int, command: Command) -> Outcome:
        return self.charged(state, ok=True, text="You leaf through the cookbook and learn nothing.", feedback="info")

    def _go(self, state: WorldState, slot: int, command: Command) -> Outcome:
        room = command.number
        if room == state.rooms[slot]:
            return self._refused(state)
        rooms = (*state.rooms[:slot], room, *state.rooms[slot + 1 :])
        return self.done(state, f"You go to the {ROOMS[room]}.", {"room": ROOMS[room]}, {"rooms": rooms})

    def _open(self, state: WorldState, slot: int, command: Command) -> Outcome:
        if state.gate:
            return self._refused(state)
        return self.done(state, "You open the gate for everybody.", {"gate": "open"}, {"gate": True})

    def _take_knife(self, state: WorldState, slot: int, command: Command) -> Outcome:
        if state.rooms[slot]:
            return self._refused(state)
        return self.done(state, "The knife is ready to hand.", None, {})

    def _take(self, state: WorldState, slot: int, command: Command) -> Outcome:
        i = command.number
        kitchen = state.kitchen
        bit = 1 << i
        behind = not state.gate and kitchen.gated & bit
        if kitchen.places[i] != state.rooms[slot] or state.taken & bit or behind or _full(state):
            return self._refused(state)
        name = kitchen.things[i]
        if is_ready(kitchen, i, 0, 0):
            delta = {"taken": [name], "ready": [name], "placed": [name]}
            changes = {"taken": state.taken | bit, "counter": state.counter | bit}
            return self.done(state, f"You take the {name} and put it on the counter.", delta, changes)
        return self.done(
            state, f"You take the {name}.", {"taken": [name]}, {"taken": state.taken | bit, "held": (*state.held, i)}
        )

    def _cut(self, state: WorldState, slot: int, command: Command) -> Outcome:
        i, value = command.number, command.value
        wanted = state.kitchen.wanted_cut >> 2 * i & 3
        if i not in state.held or wanted != value or state.cut >> 2 * i & 3 or state.cool[KNIFE]:
            return self._refused(state)
        name = state.kitchen.things[i]
        delta = {"cut": {name: CUTS[value]}}
        return self._processed(
            state, i, {"cut": state.cut | value << 2 * i}, f"The {name} is {CUTS[value]}", delta, KNIFE
        )

    def _cook(self, state: WorldState, slot: int, command: Command) -> Outcome:
        i, value = command.number, command.value
        wanted = state.kitchen.wanted_cooking >> 2 * i & 3
        if i not in state.held or wanted != value or state.cooked >> 2 * i & 3 or state.cool[value]:
            return self._refused(state)
        name = state.kitchen.things[i]
        delta = {"cooked": {name: COOKINGS[value]}}
        text = f"The {name} is {COOKINGS[value]} {COOKING[value]}"
        return self._processed(state, i, {"cooked": state.cooked | value << 2 * i}, text, delta, value)

    def _processed(
        self, state: WorldState, i: int, changes: dict[str, Any], text: str, delta: dict[str, Any], tool: int
    ) -> Outcome:
        if is_ready(state.kitchen, i, changes.get("cut", state.cut), changes.get("cooked", state.cooked)):
            delta |= {key: [state.kitchen.things[i]] for key in ("ready", "placed")}
            changes["held"] = tuple(j for j in state.held if j != i)
            changes["counter"] = state.counter | 1 << i
            text += " and goes to the counter"
        return self.done(state, text + ".", delta, changes, tool=tool)

    def _prepare(self, state: WorldState, slot: int, command: Command) -> Outcome:
        i = command.number
        foods = state.kitchen.dish_foods[i]
        if state.prepared >> i & 1 or state.counter & foods != foods:
            return self._refused(state)
        dish = state.kitchen.spec.dishes[i]
        return self.done(state, f"You prepare {dish}.", {"prepared": [dish]}, {"prepared": state.prepared | 1 << i})

    def _eat(self, state: WorldState, slot: int, command: Command) -> Outcome:
        i = command.number
        if not (state.prepared & ~state.eaten) >> i & 1:
            return self._refused(state)
        dish = state.kitchen.spec.dishes[i]
        return self.done(state, f"You eat {dish}.", {"eaten": [dish]}, {"eaten": state.eaten | 1 << i})


def _full(state: WorldState) -> bool:
    capacity = state.kitchen.capacity
    return capacity > 0 and len(state.held) >= capacity


def _reachable(state: WorldState, room: int) -> list[int]:
    """Foods of a room that nobody has collected and no gate keeps."""
    kitchen = state.kitchen
    hidden = state.taken if state.gate else state.taken | kitchen.gated
    return [i for i in range(len(kitchen.things)) if kitchen.places[i] == room and not hidden >> i & 1]


def _yes(flag: int) -> str:
    return "yes" if flag else "no"


SYNC = SyncRules()
