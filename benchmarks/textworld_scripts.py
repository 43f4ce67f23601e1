"""What scripts reach on TextWorld-Sync test tasks under both profiles: the table of docs/textworld.md.

Greedy, random and saboteur read neither task nor cookbook; random gives as many commands as the budget has steps, looks
at the inventory included. The honest solver reads its goal and, when that is coarse, the cookbook. `children, ...` are
one child a dish, 20 commands each under `sync-v9` (greedy) and 60 under `strict` (honest, told its dish's recipe; in
turn, each lends the knife).

Run: ``python benchmarks/textworld_scripts.py`` for our foods, ``... installed`` for the published ones; a second
argument plays every n-th task only.
"""

import random
import sys
from collections import defaultdict
from functools import partial
from statistics import mean

from collect.textworld import COMMAND, TextWorld
from collect.textworld_foods import open_foods
from collect.textworld_records import build_records
from collect.textworld_scripts import alone, dish_scripts, greedy, in_turn, one_by_one, sabotage, wander
from collect.textworld_solver import Notes, solve
from collect.textworld_tasks import task_of
from collect.world import Action

CHILD_STEPS = {"sync-v9": 20, "strict": 60}
DIFFICULTIES = ("easy", "medium", "hard", "extreme")


def main(source=None, stride="1"):
    records = list(build_records("test", open_foods(source)))[:: int(stride)]
    for profile in TextWorld.profiles:
        world = TextWorld(profile)
        tasks = [task_of(record, profile=profile) for record in records]
        print(f"{profile}, {len(tasks)} test tasks: success % · mean steps (most) · least slack, by difficulty")
        for name, play in players(world).items():
            ends = defaultdict(list)
            for task in tasks:
                ends[task.difficulty].append(play(task))
            print(f"  {name:<21} " + " | ".join(cell(world, ends[difficulty]) for difficulty in DIFFICULTIES))


def players(world):
    honest = world.profile == "strict"

    def children(task, *, lends=False):
        return dish_solvers(world, task, lends=lends) if honest else dish_scripts(world, task)

    steps = CHILD_STEPS[world.profile]
    table = {
        "greedy": lambda task: alone(world, task, partial(greedy, world)),
        "honest": lambda task: alone(world, task, solver(world, task.goal)),
        "children, sequential": lambda task: one_by_one(world, task, children(task), steps=steps),
        "children, in turn": lambda task: in_turn(world, task, children(task, lends=True), steps=steps),
        "random": lambda task: alone(world, task, drawn(world, wander, task), steps=world.reset(task).limit),
        "saboteur": lambda task: alone(world, task, drawn(world, sabotage, task)),
    }
    return table if honest else {name: play for name, play in table.items() if name != "honest"}


def drawn(world, script, task):
    rng = random.Random(task.seed)
    return lambda state, agent: script(world, state, agent, rng)


def solver(world, goal, *, lends=False):
    notes = Notes.of(goal, lends=lends)

    def script(state, agent):
        notes.see(state, agent)
        text = solve(state, agent, notes)
        if text == "read cookbook":
            notes.hear(world.apply(state, agent, Action(COMMAND, {"text": text}))[1].result)
        return text

    return script


def dish_solvers(world, task, *, lends):
    spec = world.reset(task).kitchen.spec
    recipes = [", ".join(food.wanted for food in spec.foods if food.dish == i) for i in range(len(spec.dishes))]
    goals = [f"prepare and eat {dish}: {foods}" for dish, foods in zip(spec.dishes, recipes, strict=True)]
    return [solver(world, goal, lends=lends) for goal in goals]


def cell(world, states):
    share = 100 * mean(world.over(state) == "success" for state in states)
    steps = [state.steps for state in states]
    return f"{share:5.1f} · {mean(steps):5.1f} ({max(steps):3}) · {min(s.limit - s.steps for s in states):3}"


if __name__ == "__main__":
    main(*sys.argv[1:])
