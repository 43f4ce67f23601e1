"""Small TextWorld-Sync tasks and ways to play them, for the tests of the world.

Invariant: names and figures are the tests' own; `play` asserts that no transition changes its input.
"""

from __future__ import annotations

from collect.textworld import COMMAND, TextWorld
from collect.world import Action, Agent, Task

ROOT = Agent("root", 0, None)
OTHER = Agent("root/t0d0b0", 1, None)
RECIPES = {
    "dish_1": [("salt", "raw", "uncut", "kitchen"), ("carrot", "fried", "chopped", "kitchen")],
    "dish_2": [("red onion", "grilled", "diced", "garden"), ("onion", "raw", "sliced", "pantry")],
}


def task(
    recipes=None, *, rooms=6, doors=0, limited=1, capacity=1, shared=None, cooldown=0, steps=60, gated=(), **changes
):
    """A task; `gated` are dishes behind the gate, `shared` a capacity declared as a shared resource."""
    dishes = [
        {
            "dish_id": dish,
            "recipe": [
                {"name": n, "preparation": [cooking, cut], "candidate_source_locations": [f"{room}.shelf"]}
                for n, cooking, cut, room in foods
            ],
        }
        for dish, foods in (recipes or RECIPES).items()
    ]
    spec = {
        "game_params": {
            "numLocations": rooms,
            "numDistractorItems": changes.pop("distractors", 3),
            "includeDoors": doors,
            "limitInventorySize": limited,
        },
        "dishes": dishes,
        "parallelism": {
            "resource_capacity": None if shared is None else {"inventory": shared},
            "mechanisms": {"tool_cooldown_steps": cooldown},
            "dependencies": [{"from": "gate_1", "to": dish, "type": "door"} for dish in gated],
            "shared_environment_max_steps": steps,
        },
        "inventory_capacity": capacity,
    }
    lines = [
        f"- {dish}: " + ", ".join(f"{n} ({c}, {k})" for n, c, k, _ in f) for dish, f in (recipes or RECIPES).items()
    ]
    body = {"task_id": "t", "world": "textworld", "profile": "strict", "split": "test", "difficulty": "easy"}
    return Task(**body, goal="Cook all dishes.\n" + "\n".join(lines), spec=spec, seed=changes.pop("seed", 7))


def start(profile, *agents, **settings):
    """A world and a state with the root, then the others, in it."""
    world = TextWorld(profile)
    state = world.enter(world.reset(task(**settings)), ROOT, None)
    for agent in agents:
        state = world.enter(state, agent, ROOT)
    return world, state


def do(world, state, text, agent=ROOT):
    """One command: the new state and its event; the input's dump must not change."""
    before = world.dump(state)
    after, event = world.apply(state, agent, Action(COMMAND, {"text": text}))
    assert world.dump(state) == before
    return after, event


def play(world, state, *texts, agent=ROOT):
    """Commands that must all be done; the last state."""
    for text in texts:
        state, event = do(world, state, text, agent)
        assert event.ok, (text, event.result)
    return state
