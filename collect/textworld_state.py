"""The state of a TextWorld-Sync world: a small flat value that every agent of a task shares.

Invariant: a state is never changed; a transition makes a new one that shares what did not change, so a branch is a
reference or a copy of one tuple. `dump` is canonical (equal states, equal text) and below 1 kB; with the task's
kitchen, which `reset` keeps by digest, it is the whole state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sera_data.canonical import canonical_json

if TYPE_CHECKING:
    from collect.textworld_kitchen import Kitchen

TOOLS = ("knife", "stove", "oven", "grill")
COOL = (0, 0, 0, 0)

# Where a thing is under per-agent rules: a room's number, or one of these; HELD - s is the hand of agent slot s.
COUNTER, GONE, HELD = -1, -2, -3


class WorldState(NamedTuple):
    """One moment. Masks have bit i for thing i (foods first, then distractors) or dish i.

    kitchen: the task's constant facts and command table. agents: node id by slot, '' for a free slot.
    rooms: room of each slot. held: things in hands, in the order they were taken. places: where each thing and, last,
    the knife is; () where hands are shared. taken: ever picked up. cut, cooked: 2 bits a thing, indices into CUTS and
    COOKINGS. counter: on the prepared counter. deleted, spoiled: eaten or thrown away, prepared wrongly.
    prepared, eaten: dishes. gate: open. cool: steps until each tool can be used. steps, limit: shared budget.
    """

    kitchen: Kitchen
    agents: tuple[str, ...]
    rooms: tuple[int, ...]
    held: tuple[int, ...]
    places: tuple[int, ...]
    taken: int
    cut: int
    cooked: int
    counter: int
    deleted: int
    spoiled: int
    prepared: int
    eaten: int
    gate: bool
    cool: tuple[int, ...]
    steps: int
    limit: int

    def __copy__(self) -> WorldState:
        """Itself: it never changes, so a fork is a reference."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> WorldState:
        return self


FIELDS = {name: place for place, name in enumerate(WorldState._fields)}
STEPS_AT, COOL_AT = FIELDS["steps"], FIELDS["cool"]


def stepped(state: WorldState, changes: Mapping[str, Any], cool: tuple[int, ...]) -> WorldState:
    """The state one charged step later with some fields changed; `_replace` does the same in twice the time."""
    values: list[Any] = [*state]
    values[STEPS_AT] += 1
    values[COOL_AT] = cool
    for name, value in changes.items():
        values[FIELDS[name]] = value
    return tuple.__new__(WorldState, values)


@lru_cache(maxsize=4096)
def ticked(cool: tuple[int, ...]) -> tuple[int, ...]:
    """Cool-downs one step later."""
    return tuple(left - 1 if left else 0 for left in cool)


@lru_cache(maxsize=4096)
def used(cool: tuple[int, ...], tool: int, steps: int) -> tuple[int, ...]:
    """Cool-downs after a tool was used."""
    return (*cool[:tool], steps, *cool[tool + 1 :])


def slot_of(state: WorldState, agent_id: str) -> int:
    """The slot of an agent that has entered; ValueError for another."""
    try:
        return state.agents.index(agent_id)
    except ValueError:
        msg = f"agent {agent_id!r} is not in this world, it holds {[name for name in state.agents if name]}"
        raise ValueError(msg) from None


def entered(state: WorldState, agent_id: str, room: int) -> WorldState:
    """The state with an agent in the first free slot; ValueError when it is there already."""
    if not agent_id or agent_id in state.agents:
        msg = f"agent {agent_id!r} is in this world already or has no name"
        raise ValueError(msg)
    slot = state.agents.index("") if "" in state.agents else len(state.agents)
    return state._replace(
        agents=(*state.agents[:slot], agent_id, *state.agents[slot + 1 :]),
        rooms=(*state.rooms[:slot], room, *state.rooms[slot + 1 :]),
    )


def left(state: WorldState, slot: int) -> WorldState:
    """The state with a slot free again; free slots at the end vanish, those before keep the others' numbers."""
    agents = [*state.agents[:slot], "", *state.agents[slot + 1 :]]
    rooms = [*state.rooms[:slot], 0, *state.rooms[slot + 1 :]]
    while agents and not agents[-1]:
        agents.pop()
        rooms.pop()
    return state._replace(agents=tuple(agents), rooms=tuple(rooms))


def moved(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    """A tuple with one entry replaced."""
    return (*values[:index], value, *values[index + 1 :])


def bits(mask: int) -> tuple[int, ...]:
    """Numbers of the bits that are set, lowest first."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


def dump_state(state: WorldState) -> str:
    """Canonical JSON; the kitchen is named by its digest."""
    body: dict[str, Any] = {name: value for name, value in zip(state._fields, state, strict=True) if name != "kitchen"}
    return canonical_json({**body, "kitchen": state.kitchen.digest})


def load_state(text: str, kitchen_of: Any) -> WorldState:
    """Inverse of `dump_state`; `kitchen_of(digest)` finds the constant facts, ValueError for another text."""
    try:
        body = json.loads(text)
        fields = {name: _frozen(body[name]) for name in WorldState._fields if name != "kitchen"}
        digest = body["kitchen"]
    except (KeyError, TypeError, ValueError):
        msg = f"not a dumped TextWorld state: {' '.join(text.split())[:80]}"
        raise ValueError(msg) from None
    return WorldState(kitchen=kitchen_of(digest), **fields)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
