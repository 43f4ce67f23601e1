"""What a rule profile of TextWorld-Sync decides, and the bookkeeping of a step that all profiles share.

Invariant: one rules object per profile holds every difference between profiles; the world and the scripts never ask
which profile it is. A step charges the shared budget once and lets cool-downs tick once, whether it was accepted or
not; a look-up costs what its profile says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from collect.textworld_kitchen import KNIFE, SYNONYMS, Command, Kitchen
from collect.textworld_spec import CUTS, ROOMS, WorldSpec
from collect.textworld_state import COOL, TOOLS, WorldState, bits, stepped, ticked, used
from collect.world import End, Event, Feedback

Outcome = tuple[WorldState, Event]
Handler = Callable[[WorldState, int, Command], Outcome]


class Rules(ABC):
    """Rules of a profile: start, admissible commands, transition, ending, what an agent sees."""

    profile: str

    def __init__(self) -> None:
        self.handlers: Mapping[str, Handler] = self.make_handlers()

    @abstractmethod
    def kitchen(self, spec: WorldSpec) -> Kitchen:
        """The constant facts of a task, built once per process."""

    @abstractmethod
    def limit(self, shared_steps: int) -> int:
        """The shared budget that this profile gives to a task of so many steps."""

    @abstractmethod
    def start(self, kitchen: Kitchen, limit: int) -> WorldState:
        """The state before anybody entered."""

    @abstractmethod
    def leave(self, state: WorldState, slot: int) -> WorldState:
        """The state after an agent has returned."""

    @abstractmethod
    def over(self, state: WorldState) -> End | None:
        """How the world has ended for everybody."""

    @abstractmethod
    def commands(self, state: WorldState, slot: int) -> list[Command]:
        """Commands that would be accepted, in the order in which agents see them."""

    @abstractmethod
    def make_handlers(self) -> Mapping[str, Handler]:
        """The transition of each verb."""

    @abstractmethod
    def unknown(self, state: WorldState, slot: int, text: str) -> Outcome:
        """What happens at a text that is no command of this world."""

    @abstractmethod
    def observe(self, state: WorldState, slot: int) -> str:
        """What an agent sees, its commands included."""

    def transition(self, state: WorldState, slot: int, text: str) -> Outcome:
        """One command of the agent in a slot."""
        command = state.kitchen.commands.get(text) or find_command(state.kitchen, text)
        if command is None:
            return self.unknown(state, slot, text)
        return self.handlers[command.verb](state, slot, command)

    def done(
        self,
        state: WorldState,
        text: str,
        delta: Mapping[str, Any] | None,
        changes: Mapping[str, Any],
        *,
        tool: int = -1,
    ) -> Outcome:
        """An accepted command: apply its changes, charge a step, tick; `tool` is the tool that it used."""
        cool = state.cool
        if tool >= 0:
            cool = used(cool, tool, state.kitchen.spec.cooldown + 1)
        after = stepped(state, changes, COOL if cool == COOL else ticked(cool))
        return after, Event(True, text, delta, self.over(after) or "ok")

    def charged(self, state: WorldState, *, ok: bool, text: str, feedback: Feedback) -> Outcome:
        """A command that changes nothing but costs a step: a refusal, or a look-up that is not free."""
        cool = state.cool
        after = stepped(state, {}, COOL if cool == COOL else ticked(cool))
        return after, Event(ok, text, None, self.over(after) or feedback)


def find_command(kitchen: Kitchen, text: str) -> Command | None:
    """A command by its stripped text, exactly; looking and the inventory in any case and spacing."""
    stripped = text.strip()
    plain = SYNONYMS.get(" ".join(stripped.lower().split()))
    return kitchen.commands.get(stripped if plain is None else plain)


def all_done(state: WorldState) -> bool:
    """Whether every dish is prepared and eaten."""
    return state.prepared & state.eaten == state.kitchen.all_dishes


def is_ready(kitchen: Kitchen, index: int, cut: int, cooked: int) -> bool:
    """Whether a food is cut and cooked exactly as wanted."""
    shift = 2 * index
    return (cut ^ kitchen.wanted_cut) >> shift & 3 == 0 and (cooked ^ kitchen.wanted_cooking) >> shift & 3 == 0


def ready_foods(state: WorldState) -> int:
    """Mask of the foods that were collected, still exist and are exactly as wanted."""
    kitchen = state.kitchen
    mask = state.taken & kitchen.all_foods & ~state.deleted & ~state.spoiled
    return sum(1 << i for i in bits(mask) if is_ready(kitchen, i, state.cut, state.cooked))


def progress(state: WorldState) -> list[dict[str, Any]]:
    """Progress vector: for each dish its foods, those collected and ready, and whether it is prepared and eaten."""
    ready = ready_foods(state)
    return [
        {
            "dish": dish,
            "foods": mask.bit_count(),
            "collected": (state.taken & mask).bit_count(),
            "ready": (ready & mask).bit_count(),
            "prepared": bool(state.prepared >> i & 1),
            "eaten": bool(state.eaten >> i & 1),
        }
        for i, (dish, mask) in enumerate(zip(state.kitchen.spec.dishes, state.kitchen.dish_foods, strict=True))
    ]


def room_of(state: WorldState, slot: int) -> str:
    """Name of the room an agent is in."""
    return ROOMS[state.rooms[slot]]


def cooling(state: WorldState) -> str:
    """``knife:1, stove:2`` or ``none``."""
    return ", ".join(sorted(f"{tool}:{left}" for tool, left in zip(TOOLS, state.cool, strict=True) if left)) or "none"


def listed(names: list[str], *, empty: str = "(none)") -> str:
    """Names on one line."""
    return ", ".join(names) or empty


def command_line(commands: list[Command]) -> str:
    """The line of an observation that lists what can be done."""
    return "Commands: " + "; ".join(command.text for command in commands)


def knife_is_cool(state: WorldState) -> bool:
    """Whether the knife can be used."""
    return not state.cool[KNIFE]


assert len(CUTS) == 4
