"""Profile `strict`: the same tasks under rules that the list of commands does not give away.

Invariant: every cut and every cooking of a thing in an agent's own hands is accepted, so knowledge of the recipe
decides; a wrong preparation, an eaten food or a dish put together wrongly can never be undone and ends the task as a
failure. Devices, cookbook and counter stand in rooms, cutting needs the knife, distractors are things like any other.
A refusal says why and costs a step; looking, reading and waiting are free; nothing happens after the end.

The shared budget is the task's times BUDGET_SCALE, because carrying, placing and walking cost steps here that the
published rules give away; docs/textworld.md has the figures.
"""

from __future__ import annotations

import json
import math
from random import Random

from collect import textworld_kitchen as kitchens
from collect.textworld_hands import BEHIND_GATE, DEVICES, GARDEN, KITCHEN, HandRules, carried, kept, shown, within_reach
from collect.textworld_kitchen import Command, Kitchen
from collect.textworld_rules import Outcome, command_line, cooling, knife_is_cool, listed, room_of
from collect.textworld_spec import WorldSpec, read_spec
from collect.textworld_state import COOL, HELD, WorldState, bits, left
from collect.world import End, Event
from sera_data.canonical import derive_seed

BUDGET_SCALE = 2.0
DISTRACTORS = (
    "apricot",
    "artichoke",
    "beetroot",
    "broad beans",
    "cauliflower",
    "celeriac",
    "chestnut",
    "cod fillet",
    "courgette",
    "duck egg",
    "fennel",
    "fig",
    "ginger root",
    "grapefruit",
    "halloumi",
    "kohlrabi",
    "leek",
    "mango",
    "melon",
    "mussels",
    "okra",
    "papaya",
    "parsnip",
    "pear",
    "plum",
    "pumpkin",
    "quince",
    "radish",
    "rye roll",
    "sausage",
    "shallot",
    "smoked trout",
    "sweetcorn",
    "tofu",
    "turnip",
    "walnut bread",
)
FIXED = {
    command.text: command
    for command in (
        Command("look", "look around"),
        Command("inventory", "inventory"),
        Command("cookbook", "read cookbook"),
        Command("wait", "wait"),
        Command("open", "open door"),
        Command("take knife", "take knife"),
        Command("drop knife", "drop knife"),
    )
}
FURNITURE = {KITCHEN: "stove, oven, counter, cookbook", GARDEN: "grill"}


def build(source: str) -> Kitchen:
    """The kitchen of a spec's source text, from memory when this process has it."""
    parts = json.loads(source)
    return STRICT.kitchen(read_spec(parts["body"], seed=parts["seed"]))


class StrictRules(HandRules):
    """Rules under which knowing the task matters."""

    profile = "strict"

    def kitchen(self, spec: WorldSpec) -> Kitchen:
        """Foods lie in one of the rooms that each may come from, distractors anywhere, drawn from the task's seed."""
        known = kitchens.kept(self.profile, spec.digest)
        if known is not None:
            return known
        foods = tuple(food.name for food in spec.foods)
        names = [name for name in DISTRACTORS if name not in foods]
        if spec.n_distractors > len(names):
            msg = f"game_params.numDistractorItems is at most {len(names)} here, got {spec.n_distractors}"
            raise ValueError(msg)
        stream = Random(derive_seed("textworld-strict", spec.digest if spec.seed is None else spec.seed))
        places = [stream.choice(food.rooms) for food in spec.foods]
        things = (*foods, *stream.sample(names, spec.n_distractors))
        places += [stream.randrange(spec.n_rooms) for _ in range(spec.n_distractors)]
        return kitchens.keep(_kitchen(self.profile, spec, things, (*places, KITCHEN)))

    def limit(self, shared_steps: int) -> int:
        """The task's budget times BUDGET_SCALE, rounded up."""
        return math.ceil(shared_steps * BUDGET_SCALE)

    def start(self, kitchen: Kitchen, limit: int) -> WorldState:
        """Everything lies where it lies; the gate is open when the task has no doors."""
        gate = not kitchen.spec.doors
        return WorldState(kitchen, (), (), (), kitchen.places, 0, 0, 0, 0, 0, 0, 0, 0, gate, COOL, 0, limit)

    def leave(self, state: WorldState, slot: int) -> WorldState:
        """What the agent carried is put down in the room it was in."""
        hand, room = HELD - slot, state.rooms[slot]
        places = tuple(room if place == hand else place for place in state.places)
        held = tuple(i for i in state.held if state.places[i] != hand)
        return left(state, slot)._replace(places=places, held=held)

    def over(self, state: WorldState) -> End | None:
        """A spoiled or lost food is a failure; all dishes eaten in time are a success; else the budget may be spent."""
        kitchen = state.kitchen
        if (state.spoiled | state.deleted) & kitchen.all_foods:
            return "failure"
        if state.eaten == kitchen.all_dishes:  # only what is prepared can be eaten
            return "success"
        return "exhausted" if state.steps >= state.limit else None

    def transition(self, state: WorldState, slot: int, text: str) -> Outcome:
        """One command; after the end nothing is applied and nothing is charged."""
        if self.over(state) is not None:
            return state, Event(False, "It is over: nothing is done any more.", None, "rejected")
        return HandRules.transition(self, state, slot, text)

    def commands(self, state: WorldState, slot: int) -> list[Command]:
        """What this agent could do here and now; nothing after the end."""
        if self.over(state) is not None:
            return []
        kitchen, room, hand = state.kitchen, state.rooms[slot], HELD - slot
        found = [FIXED["look around"], FIXED["inventory"], FIXED["wait"]]
        if room == KITCHEN:
            found.append(FIXED["read cookbook"])
        found += [way for way in kitchen.going[room] if state.gate or way.number not in BEHIND_GATE]
        if not state.gate and room == KITCHEN:
            found.append(FIXED["open door"])
        if state.places[-1] in (room, hand):
            found.append(FIXED["take knife" if state.places[-1] == room else "drop knife"])
        mine = carried(state, slot)
        if not kitchen.capacity or len(mine) < kitchen.capacity:
            found += [kitchen.taking[i] for i in within_reach(state, room)]
        for i in mine:
            if state.places[-1] == hand and knife_is_cool(state) and not state.cut >> 2 * i & 3:
                found += kitchen.cutting[i]
            if not state.cooked >> 2 * i & 3:
                found += [c for c in kitchen.cooking[i] if DEVICES[c.value] == room and not state.cool[c.value]]
            name = kitchen.things[i]
            if room == KITCHEN:
                found.append(kitchen.commands[f"put {name} on counter"])
            found += [kitchen.commands[f"drop {name}"], kitchen.commands[f"eat {name}"]]
        if room == KITCHEN:
            for i, foods in enumerate(kitchen.dish_foods):
                if not state.prepared >> i & 1 and state.counter & foods == foods:
                    found.append(kitchen.preparing[i])
            found += [kitchen.eating[i] for i in bits(state.prepared & ~state.eaten)]
        return found

    def unknown(self, state: WorldState, slot: int, text: str) -> Outcome:
        """Costs a step; the text is shown shortened."""
        quoted = " ".join(text.split())[:60]
        return self.refused(state, f"no command reads {quoted!r}")

    def observe(self, state: WorldState, slot: int) -> str:
        """Room, things and their visible state, own hands, gate, cool-downs, counter, dishes, steps left, commands."""
        kitchen, room = state.kitchen, state.rooms[slot]
        here = [shown(state, i) for i, place in enumerate(state.places[:-1]) if place == room and not kept(state, i)]
        mine = [shown(state, i) for i in carried(state, slot)]
        knife = state.places[-1]
        dishes = [
            f"- {dish}: {(state.counter & mask).bit_count()} of {mask.bit_count()} foods on the counter"
            if not state.prepared >> i & 1
            else f"- {dish}: {'eaten' if state.eaten >> i & 1 else 'prepared'}"
            for i, (dish, mask) in enumerate(zip(kitchen.spec.dishes, kitchen.dish_foods, strict=True))
        ]
        lines = [
            f"Room: {room_of(state, slot)}" + (f" ({FURNITURE[room]})" if room in FURNITURE else ""),
            f"You see: {listed(here + ['knife'] * (knife == room))}",
            f"You carry: {listed(mine + ['knife'] * (knife == HELD - slot))}"
            + (f"; hands hold {kitchen.capacity}, the knife aside" if kitchen.capacity else ""),
            f"Gate to garden and supermarket: {'open' if state.gate else 'closed'}",
            f"Tools cooling down: {cooling(state)}",
            f"Counter: {listed([shown(state, i) for i in bits(state.counter)], empty='(empty)')}",
            "Dishes:",
            *dishes,
            f"Shared steps left: {max(0, state.limit - state.steps)}",
            command_line(self.commands(state, slot)),
        ]
        return "\n".join(lines)


def _kitchen(profile: str, spec: WorldSpec, things: tuple[str, ...], places: tuple[int, ...]) -> Kitchen:
    taking, cutting, cooking = kitchens.thing_commands(things)
    preparing, eating = kitchens.dish_commands(spec.dishes)
    rooms = tuple(Command("go", f"go to {room}", i) for i, room in enumerate(spec.rooms))
    laying = tuple(
        command
        for i, name in enumerate(things)
        for command in (
            Command("put", f"put {name} on counter", i),
            Command("drop", f"drop {name}", i),
            Command("eat thing", f"eat {name}", i),
        )
    )
    return Kitchen(
        spec=spec,
        profile=profile,
        digest=spec.digest,
        things=things,
        places=places,
        capacity=_capacity(spec),
        gated=kitchens.gated_foods(spec),
        dish_foods=kitchens.dish_masks(spec),
        all_foods=(1 << len(spec.foods)) - 1,
        all_dishes=(1 << len(spec.dishes)) - 1,
        wanted_cut=kitchens.wanted_cuts(spec),
        wanted_cooking=kitchens.wanted_cookings(spec),
        commands=kitchens.table(tuple(FIXED.values()), rooms, taking, laying, *cutting, *cooking, preparing, eating),
        going=tuple(tuple(way for way in rooms if way.number != room) for room in range(spec.n_rooms)),
        taking=taking,
        cutting=cutting,
        cooking=cooking,
        preparing=preparing,
        eating=eating,
        built_by=build,
    )


def _capacity(spec: WorldSpec) -> int:
    """Things in one agent's hands: a declared shared capacity, else as sampled when limited, else no limit."""
    if spec.shared_capacity is not None:
        return spec.shared_capacity
    if not spec.limited:
        return 0
    return 1 if spec.sampled_capacity is None else spec.sampled_capacity


STRICT = StrictRules()
