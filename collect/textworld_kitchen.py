"""The constant part of a TextWorld-Sync world under one rule profile: things, places, capacity and the command table.

Invariant: a kitchen is built once from a spec and never changes; every command that can ever be accepted is in its
table, so a transition is one look-up and a few bit operations. The process keeps the kitchens it has met by digest,
because a dumped state names its kitchen only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from collect.textworld_spec import CUTS, WorldSpec

Verb = Literal[
    "look",
    "inventory",
    "cookbook",
    "wait",
    "go",
    "open",
    "take knife",
    "drop knife",
    "take",
    "drop",
    "put",
    "cut",
    "cook",
    "eat thing",
    "prepare",
    "eat",
]
CUTTING = {1: "chop", 2: "slice", 3: "dice"}  # verb by index into CUTS
COOKING = {1: "in stove", 2: "in oven", 3: "on grill"}  # place by index into COOKINGS, which is the tool's too
KNIFE = 0  # index into TOOLS
SYNONYMS: Mapping[str, str] = {
    "look around": "look around",
    "inventory": "inventory",
    "view inventory": "inventory",
    "check inventory": "inventory",
}
KEPT = 1024  # kitchens a process remembers, 40 to 90 kB each


class Command(NamedTuple):
    """A command of the table. number: of a thing, dish or room; value: index into CUTS or COOKINGS."""

    verb: Verb
    text: str
    number: int = 0
    value: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Kitchen:
    """Constant facts of a task under a profile.

    things: names of foods, then of distractors. places: room of each thing and, last, of the knife. capacity: things
    in hands, 0 = no limit. gated: mask of foods that a closed gate keeps. dish_foods: food mask of each dish.
    all_dishes: mask. wanted_cut, wanted_cooking: 2 bits a food. commands: by text. going: the ways out of each room.
    taking: take command of each thing. cutting, cooking: commands of each thing, by value - 1.
    preparing, eating: command of each dish.
    """

    spec: WorldSpec
    profile: str
    digest: str
    things: tuple[str, ...]
    places: tuple[int, ...]
    capacity: int
    gated: int
    dish_foods: tuple[int, ...]
    all_foods: int
    all_dishes: int
    wanted_cut: int
    wanted_cooking: int
    commands: Mapping[str, Command]
    going: tuple[tuple[Command, ...], ...]
    taking: tuple[Command, ...]
    cutting: tuple[tuple[Command, ...], ...]
    cooking: tuple[tuple[Command, ...], ...]
    preparing: tuple[Command, ...]
    eating: tuple[Command, ...]
    built_by: Callable[[str], Kitchen]

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels between processes as its spec's source."""
        return self.built_by, (self.spec.source,)


def thing_commands(
    things: tuple[str, ...],
) -> tuple[tuple[Command, ...], tuple[tuple[Command, ...], ...], tuple[tuple[Command, ...], ...]]:
    """Commands that take, cut and cook each thing."""
    taking = tuple(Command("take", f"take {name}", i) for i, name in enumerate(things))
    cutting = tuple(
        tuple(Command("cut", f"{verb} {name}", i, value) for value, verb in CUTTING.items())
        for i, name in enumerate(things)
    )
    cooking = tuple(
        tuple(Command("cook", f"cook {name} {where}", i, value) for value, where in COOKING.items())
        for i, name in enumerate(things)
    )
    return taking, cutting, cooking


def dish_commands(dishes: tuple[str, ...]) -> tuple[tuple[Command, ...], tuple[Command, ...]]:
    """Commands that prepare and eat each dish."""
    preparing = tuple(Command("prepare", f"prepare {dish}", i) for i, dish in enumerate(dishes))
    eating = tuple(Command("eat", f"eat {dish}", i) for i, dish in enumerate(dishes))
    return preparing, eating


def table(*groups: tuple[Command, ...]) -> dict[str, Command]:
    """Commands by text; ValueError when two mean different things by the same words."""
    found: dict[str, Command] = {}
    for group in groups:
        for command in group:
            if command.text in found:
                msg = f"two commands read {command.text!r}: a food or dish has the name of something else"
                raise ValueError(msg)
            found[command.text] = command
    return found


def dish_masks(spec: WorldSpec) -> tuple[int, ...]:
    """Food mask of each dish."""
    return tuple(
        sum(1 << i for i, food in enumerate(spec.foods) if food.dish == dish) for dish in range(len(spec.dishes))
    )


def gated_foods(spec: WorldSpec) -> int:
    """Mask of the foods whose dish is behind the gate."""
    return sum(1 << i for i, food in enumerate(spec.foods) if spec.gated >> food.dish & 1)


def wanted_cuts(spec: WorldSpec) -> int:
    """2 bits a food: how it is to be cut."""
    return sum(food.cut << 2 * i for i, food in enumerate(spec.foods))


def wanted_cookings(spec: WorldSpec) -> int:
    """2 bits a food: how it is to be cooked."""
    return sum(food.cooking << 2 * i for i, food in enumerate(spec.foods))


_KEPT: OrderedDict[tuple[str, str], Kitchen] = OrderedDict()


def kept(profile: str, digest: str) -> Kitchen | None:
    """The kitchen this process has met, or None."""
    kitchen = _KEPT.get((profile, digest))
    if kitchen is not None:
        _KEPT.move_to_end((profile, digest))
    return kitchen


def keep(kitchen: Kitchen) -> Kitchen:
    """Remember a kitchen; the least recently used is forgotten beyond KEPT."""
    _KEPT[kitchen.profile, kitchen.digest] = kitchen
    while len(_KEPT) > KEPT:
        _KEPT.popitem(last=False)
    return kitchen


assert set(CUTTING) == set(range(1, len(CUTS)))
