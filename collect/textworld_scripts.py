"""Scripts for TextWorld-Sync that read neither task nor cookbook: greedy, random, saboteur, and how scripts are played.

Invariant: pure; a script sees the state only through the commands that its agent is offered and through what every
agent is shown. Their success on a profile says how much its list of commands gives away.

Use: ``greedy(world, state, agent)`` for a whole task, ``greedy(world, state, agent, dishes=(0,))`` for a child that
owns one dish; `one_by_one` and `in_turn` play one child a dish, sequentially and round-robin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from collect.textworld import COMMAND, TextWorld
from collect.textworld_kitchen import Command, Verb
from collect.textworld_spec import SOURCES
from collect.textworld_state import COUNTER, WorldState, slot_of
from collect.world import Action, Agent, Task

Script = Callable[[WorldState, Agent], str | None]
CHILD_STEPS = 20
PRODUCTIVE: tuple[Verb, ...] = ("eat", "prepare", "cook", "cut", "put", "take")
WASTEFUL: tuple[Verb, ...] = ("eat thing", "cook", "cut", "take")
ROOT = Agent("root", 0, None)


def greedy(world: TextWorld, state: WorldState, agent: Agent, *, dishes: Sequence[int] | None = None) -> str | None:
    """Any productive command in the order eat, prepare, cook, cut, put, take; else it opens the door or changes rooms.

    It goes to and fro between kitchen and pantry, as all published tasks need no other room; where a food lies
    elsewhere and none is left in these two, it is told where.
    With `dishes`, only what belongs to these; None when they are eaten.
    """
    wanted = state.kitchen.all_dishes if dishes is None else sum(1 << dish for dish in dishes)
    if state.eaten & wanted == wanted:
        return None
    offered = world.rules.commands(state, slot_of(state, agent.node_id))
    foods = sum(mask for i, mask in enumerate(state.kitchen.dish_foods) if wanted >> i & 1)
    things = -1 if dishes is None else foods  # with all dishes its own it takes distractors too: it reads nothing
    for verb in PRODUCTIVE:
        for command in offered:
            if command.verb == verb and _mine(state, command, wanted, things):
                return command.text
    kitchen = state.kitchen
    if kitchen.spec.gated and not state.gate and any(command.verb == "open" for command in offered):
        return "open door"
    room = state.rooms[slot_of(state, agent.node_id)]
    full = kitchen.capacity > 0 and len(state.held) >= kitchen.capacity
    if full and (any(foods >> i & 1 for i in state.held) or _lies_here(state, foods, room)):
        return "look around"  # blocked by a cool-down or by another's hands, and at the right place
    elsewhere = [source for source in range(2, len(SOURCES)) if _lies_here(state, foods, source)]
    if elsewhere and not _lies_here(state, foods, 0) and not _lies_here(state, foods, 1):
        return f"go to {SOURCES[elsewhere[0]]}"
    return "go to pantry" if room == 0 else "go to kitchen"


def wander(world: TextWorld, state: WorldState, agent: Agent, rng: Random) -> str | None:
    """Any offered command, each as likely; None when nothing is offered."""
    offered = world.commands(state, agent)
    return rng.choice(offered) if offered else None


def sabotage(world: TextWorld, state: WorldState, agent: Agent, rng: Random) -> str | None:
    """Destroys or spoils what it holds where the rules allow that, else fills the hands and burns the shared budget."""
    offered = world.rules.commands(state, slot_of(state, agent.node_id))
    if not offered:
        return None
    for verb in WASTEFUL:
        options = [command.text for command in offered if command.verb == verb]
        if options:
            return rng.choice(options)
    return "look around" if state.held else rng.choice([c.text for c in offered if c.verb == "go"])


def alone(world: TextWorld, task: Task, script: Script, *, steps: int = 1_000) -> WorldState:
    """The end of a task that the root plays by a script, for at most so many commands."""
    state = world.enter(world.reset(task), ROOT, None)
    return _played(world, state, ROOT, script, steps=steps)


def one_by_one(world: TextWorld, task: Task, scripts: Sequence[Script], *, steps: int = CHILD_STEPS) -> WorldState:
    """One child per script, each after the one before it has returned."""
    state = world.enter(world.reset(task), ROOT, None)
    for index, script in enumerate(scripts):
        child = Agent(f"root/t0d{index}b0", 1, None)
        state = _played(world, world.enter(state, child, ROOT), child, script, steps=steps)
        state = world.leave(state, child)
    return state


def in_turn(world: TextWorld, task: Task, scripts: Sequence[Script], *, steps: int = CHILD_STEPS) -> WorldState:
    """One child per script, all at once, one command each in turn; a child leaves when its script is done."""
    state = world.enter(world.reset(task), ROOT, None)
    children = [Agent(f"root/t0d{index}b0", 1, None) for index in range(len(scripts))]
    for child in children:
        state = world.enter(state, child, ROOT)
    playing = list(zip(children, scripts, strict=True))
    for _ in range(steps):
        for child, script in tuple(playing):
            text = None if world.over(state) else script(state, child)
            if text is None:
                playing.remove((child, script))
                state = world.leave(state, child)
            else:
                state, _ = world.apply(state, child, Action(COMMAND, {"text": text}))
    return state


def dish_scripts(world: TextWorld, task: Task) -> list[Script]:
    """The greedy script of one child per dish."""

    def of(dish: int) -> Script:
        return lambda state, agent: greedy(world, state, agent, dishes=(dish,))

    return [of(dish) for dish in range(len(world.reset(task).kitchen.spec.dishes))]


def _played(world: TextWorld, state: WorldState, agent: Agent, script: Script, *, steps: int) -> WorldState:
    for _ in range(steps):
        text = None if world.over(state) else script(state, agent)
        if text is None:
            break
        state, _ = world.apply(state, agent, Action(COMMAND, {"text": text}))
    return state


def _mine(state: WorldState, command: Command, dishes: int, things: int) -> bool:
    if command.verb in ("eat", "prepare"):
        return bool(dishes >> command.number & 1)
    on_counter = bool(state.places) and state.places[command.number] == COUNTER
    return bool(things >> command.number & 1) and not on_counter


def _lies_here(state: WorldState, foods: int, room: int) -> bool:
    places = state.places or state.kitchen.places
    return any(foods >> i & 1 and places[i] == room and not state.taken >> i & 1 for i in range(len(places) - 1))
