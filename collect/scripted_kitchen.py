"""The act programs of the scripted policies in TextWorld-Sync: cooks that work alone, dish by dish, badly or in vain.

Invariant: a decision depends only on what the agent's prompt shows (its goal, its view, its list of commands), its
style and the request's seed; the same seeds give the same tree.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from collect import textworld_scripts as scripts
from collect.textworld import COMMAND
from collect.textworld_solver import Notes, solve
from collect.textworld_spec import ROOMS, SOURCES
from collect.textworld_state import slot_of

Call = dict[str, Any]
KitchenProgram = Literal["alone", "sequential", "parallel", "careful", "teacher", "saboteur", "wanderer"]
Reading = Literal["greedy", "honest"]
HANDING_OUT: tuple[KitchenProgram, ...] = ("sequential", "parallel", "careful", "teacher")
DONE, FAILED = "done", "failed"
TRIES = 2  # times that a careful cook hands out one dish
TIRED = 6  # acts after which a saboteur claims to be done


@dataclass(slots=True)
class Cook:
    """One agent's style and memory.

    reading: greedy takes any listed command that gets on; honest reads goal and cookbook. slip: probability of a slip
    per turn. delegates: whether it hands dishes out. hasty: as a root, hands no dish out twice, and claims to be done
    rather than cook with a tool it dislikes. shirks: as a child, claims to be done rather than cook with such a tool.
    fumbles: first tries to take what it holds already. disliked: first letters of those tools. notes:
    what it has read.
    """

    reading: Reading = "greedy"
    slip: float = 0.0
    delegates: bool = True
    hasty: bool = False
    shirks: bool = False
    fumbles: bool = False
    disliked: str = ""
    notes: Notes | None = field(default=None)


def teacher_cook(
    rng: random.Random,
    reading: Reading,
    *,
    slips: Mapping[float, float],
    delegate: float,
    habits: Mapping[str, float],
    disliked: str,
) -> Cook:
    """Style of one of the teacher's agents: slip rate drawn by the weights, shares of them delegate or have a habit."""
    slip = rng.choices(list(slips), list(slips.values()))[0]
    delegates = rng.random() < delegate
    hasty, shirks, fumbles = (rng.random() < habits[name] for name in ("hasty", "shirk", "fumble"))
    return Cook(reading, slip, delegates, hasty=hasty, shirks=shirks, fumbles=fumbles, disliked=disliked)


def act(program: KitchenProgram, cook: Cook, facts: Mapping[str, Any], rng: random.Random) -> Call | str:
    """The next call of an agent, or a text that is none."""
    kitchen = _Kitchen(facts)
    if program == "saboteur":
        return _saboteur(kitchen, rng)
    if program == "wanderer":
        return _wanderer(kitchen, rng)
    if kitchen.done():
        return finish_call(DONE)
    if program == "teacher" and kitchen.turns and rng.random() < cook.slip * 0.25:
        return finish_call(DONE)  # stops early, and claims success
    if cook.delegates and program in HANDING_OUT and kitchen.may_delegate:
        return _hand_out(program, kitchen, tries=1 if cook.hasty or program in ("sequential", "parallel") else TRIES)
    if program == "teacher" and kitchen.turns_left <= 1:
        return finish_call(FAILED if cook.slip == 0 else DONE)
    if program == "teacher" and rng.random() < cook.slip:
        return command_call(_slip(kitchen, rng))
    own_hands = bool(kitchen.state.places)  # where hands are shared the list of commands says all there is to read
    text = (
        _honest(kitchen, cook)
        if cook.reading == "honest" and own_hands
        else kitchen.greedy(helpful=program == "teacher")
    )
    if text is not None and cook.reading == "honest" and not own_hands:
        text = kitchen.search(text)
    return finish_call(DONE) if text is None else _habitual(kitchen, cook, text)


def _habitual(kitchen: _Kitchen, cook: Cook, text: str) -> Call:
    """The command, or what the cook's habits make of one that cooks with a tool it dislikes."""
    tool = text.rpartition(" ")[2]
    if not text.startswith("cook ") or tool[0] not in cook.disliked:
        return command_call(text)
    if cook.shirks if kitchen.agent.depth else cook.hasty:
        return finish_call(DONE)
    if cook.fumbles and not kitchen.refused():
        food = text.removeprefix("cook ").rpartition(" ")[0].rpartition(" ")[0]
        return command_call(f"take {food}")  # which it holds
    return command_call(text)


def command_call(text: str) -> Call:
    """The call of one command."""
    return {"tool": COMMAND, "text": text}


def finish_call(message: str) -> Call:
    """The finishing call."""
    return {"tool": "finish", "message": message}


def launch_call(goals: Sequence[str]) -> Call:
    """A delegation with one child per goal."""
    return {"tool": "delegate", "launches": [{"targets": {"goal": goal, "max_steps": None}} for goal in goals]}


class _Kitchen:
    """What an agent sees, as far as the programs need it."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.world, self.state, self.agent = facts["world"], facts["state"], facts["agent"]
        self.history = facts["history"]
        self.turns = len(self.history)
        self.turns_left = facts["turns_left"]
        self.may_delegate = self.agent.depth == 0 and facts["max_depth"] > 0
        self.dishes = _named(self.agent.targets["goal"], self.state.kitchen.spec.dishes, root=self.agent.depth == 0)

    def commands(self) -> list[str]:
        """The list of commands."""
        return list(self.world.commands(self.state, self.agent))

    def open_dishes(self) -> list[int]:
        """Dishes of the goal that are not eaten."""
        return [dish for dish in self.dishes if not self.state.eaten >> dish & 1]

    def done(self) -> bool:
        """Whether all dishes of the goal are eaten."""
        return not self.open_dishes()

    def tried(self) -> dict[int, int]:
        """How often each dish was handed out."""
        counts: dict[int, int] = {}
        for action, _, _ in self.history:
            if action is not None and action.tool == "delegate":
                for launch in action.arguments["launches"]:
                    for dish in _named(launch["targets"]["goal"], self.state.kitchen.spec.dishes, root=False):
                        counts[dish] = counts.get(dish, 0) + 1
        return counts

    def refused(self) -> bool:
        """Whether any command of this agent was refused."""
        return any(event is not None and not event.ok for _, event, _ in self.history)

    def goal_for(self, dish: int) -> str:
        """What a child is told to do."""
        return f"prepare and eat {self.state.kitchen.spec.dishes[dish]}"

    def search(self, text: str) -> str:
        """Where to look for the next food instead of where the script that reads nothing would go."""
        if not text.startswith("go to"):
            return text
        here = self.state.rooms[slot_of(self.state, self.agent.node_id)]
        seen = {here} | {ROOMS.index(event.delta["room"]) for _, event, _ in self.history if _moved(event)}
        rooms = [room for room in range(len(SOURCES)) if room != here]
        return f"go to {ROOMS[next((room for room in rooms if room not in seen), rooms[here % len(rooms)])]}"

    def greedy(self, *, helpful: bool = False) -> str | None:
        """What the script that reads nothing does for the goal's dishes, or for all dishes where it is helpful.

        Whoever was told no foods cannot tell those of its dish from others.
        """
        everything = helpful or len(self.dishes) == len(self.state.kitchen.spec.dishes)
        return scripts.greedy(self.world, self.state, self.agent, dishes=None if everything else self.dishes)


def _honest(kitchen: _Kitchen, cook: Cook) -> str | None:
    """What the solver does that reads its goal and the cookbook and sees only what it is shown; None = all done."""
    if cook.notes is None:
        cook.notes = Notes.of(kitchen.agent.targets["goal"])
    if kitchen.history and (event := kitchen.history[-1][1]) is not None:
        cook.notes.hear(event.result)
    cook.notes.see(kitchen.state, kitchen.agent)
    return solve(kitchen.state, kitchen.agent, cook.notes)


def _moved(event: Any) -> bool:
    return event is not None and event.ok and event.delta is not None and "room" in event.delta


def _named(goal: str, dishes: Sequence[str], *, root: bool) -> tuple[int, ...]:
    """Dishes that a goal names; all of them for the root and for a goal that names none."""
    words = set(goal.replace(",", " ").replace(".", " ").replace(":", " ").split())
    found = tuple(i for i, name in enumerate(dishes) if name in words)
    return tuple(range(len(dishes))) if root or not found else found


def _hand_out(program: KitchenProgram, kitchen: _Kitchen, *, tries: int) -> Call:
    """One child per dish: all from one reply, or one after another; then finish."""
    tried = kitchen.tried()
    waiting = [dish for dish in kitchen.open_dishes() if tried.get(dish, 0) < tries]
    if not waiting or kitchen.turns_left <= 1:
        return finish_call(FAILED)
    chosen = waiting if program == "parallel" else waiting[:1]
    return launch_call([kitchen.goal_for(dish) for dish in chosen])


def _slip(kitchen: _Kitchen, rng: random.Random) -> str:
    """A command that a careless cook gives: an idle one, a move, one out of order, or one that is not listed."""
    listed = kitchen.commands()
    kind = rng.choice(("idle", "move", "order", "unlisted"))
    if kind == "move":
        return rng.choice([text for text in listed if text.startswith("go to")] or ["look around"])
    if kind == "order":
        return rng.choice(listed)
    if kind == "unlisted":
        foods = kitchen.state.kitchen.spec.foods
        return f"take {rng.choice(foods).name}"
    return "look around"


def _wanderer(kitchen: _Kitchen, rng: random.Random) -> Call | str:
    """Random calls; now and then a reply that is no call at all."""
    draw = rng.random()
    if draw < 0.05:
        return "I am not sure what to do."
    if draw < 0.08 and kitchen.turns > 2:
        return finish_call(DONE)
    if draw < 0.13 and kitchen.may_delegate:
        return launch_call([kitchen.goal_for(rng.choice(kitchen.dishes))])
    text = scripts.wander(kitchen.world, kitchen.state, kitchen.agent, rng)
    return finish_call(FAILED) if text is None else command_call(text)


def _saboteur(kitchen: _Kitchen, rng: random.Random) -> Call:
    """Treats food wrongly where the rules let it, wastes the common steps otherwise, then claims to be done."""
    if kitchen.turns >= TIRED or kitchen.turns_left <= 1:
        return finish_call(DONE)
    text = scripts.sabotage(kitchen.world, kitchen.state, kitchen.agent, rng)
    return finish_call(DONE) if text is None else command_call(text)
