"""Scripts over the test tasks: the published figures under sync-v9, and what they are worth under strict."""

import random
from collections import defaultdict
from functools import cache, partial
from statistics import mean

import pytest

from collect.textworld import COMMAND, TextWorld
from collect.textworld_foods import open_foods
from collect.textworld_records import build_records
from collect.textworld_scripts import alone, dish_scripts, greedy, in_turn, one_by_one, sabotage, wander
from collect.textworld_solver import Notes, Wanted, read_recipes, solve
from collect.textworld_tasks import task_of
from collect.world import Action
from tests.collect.textworld_lab import ROOT, start

DIFFICULTIES = ("easy", "medium", "hard", "extreme")


@cache
def tasks(split, profile, source="installed", stride=1):
    """Tasks of a split; 'installed' are the published ones, by the food table of textworld-express (dev extra)."""
    return [task_of(r, profile=profile) for r in list(build_records(split, open_foods(source)))[::stride]]


def honest(world, goal, *, lends=False):
    """The solver as a script; it hears what its own commands give back."""
    notes = Notes.of(goal, lends=lends)

    def script(state, agent):
        notes.see(state, agent)
        text = solve(state, agent, notes)
        if text == "read cookbook":
            notes.hear(world.apply(state, agent, Action(COMMAND, {"text": text}))[1].result)
        return text

    return script


def ends(world, some, play):
    """Per difficulty: share of successes, and steps of the ends."""
    found = defaultdict(list)
    for task in some:
        found[task.difficulty].append(play(world, task))
    share = {name: mean(world.over(state) == "success" for state in states) for name, states in found.items()}
    return share, {
        name: [(state.steps, state.limit - state.steps) for state in states] for name, states in found.items()
    }


def greedily(world, task):
    return alone(world, task, partial(greedy, world))


def honestly(world, task):
    return alone(world, task, honest(world, task.goal))


def randomly(world, task):
    """As many commands as the budget has steps: the published figure counts looks at the inventory too."""
    rng = random.Random(task.seed)
    limit = world.reset(task).limit
    return alone(world, task, lambda state, agent: wander(world, state, agent, rng), steps=limit)


def in_sequence(world, task):
    return one_by_one(world, task, dish_scripts(world, task))


def in_parallel(world, task):
    return in_turn(world, task, dish_scripts(world, task))


def lending(world, task):
    """One honest child per dish, all at once; each is told its recipe and lends the knife."""
    spec = world.reset(task).kitchen.spec
    goals = [
        f"prepare and eat {dish}: " + ", ".join(food.wanted for food in spec.foods if food.dish == i)
        for i, dish in enumerate(spec.dishes)
    ]
    return in_turn(world, task, [honest(world, goal, lends=True) for goal in goals], steps=60)


def figures(steps):
    """Mean and greatest number of steps, least slack, by difficulty."""
    return [(round(mean(n for n, _ in s), 1), max(n for n, _ in s), min(left for _, left in s)) for s in steps.values()]


@pytest.mark.slow
def test_greedy_has_the_published_figures_on_all_tasks():
    world = TextWorld("sync-v9")
    share, steps = ends(world, tasks("test", "sync-v9"), greedily)
    assert share == dict.fromkeys(DIFFICULTIES, 1)
    assert figures(steps) == [(13.9, 16, 100), (28.9, 47, 50), (49.3, 58, 18), (54.4, 58, 8)]
    for split, count in (("dev", 200), ("train", 1_500)):
        some = tasks(split, "sync-v9")
        assert len(some) == count
        assert set(ends(world, some, greedily)[0].values()) == {1}


@pytest.mark.slow
def test_children_one_by_one_succeed_and_in_turn_they_do_not():
    world, some = TextWorld("sync-v9"), tasks("test", "sync-v9")
    share, steps = ends(world, some, in_sequence)
    assert share == dict.fromkeys(DIFFICULTIES, 1)
    assert [mean for mean, _, _ in figures(steps)] == [14.9, 29.6, 51.9, 57.4]
    share, _ = ends(world, some, in_parallel)
    assert [round(100 * share[name], 1) for name in DIFFICULTIES] == [100, 75.1, 0, 0]


@pytest.mark.slow
def test_random_commands_solve_some_easy_tasks_only_under_the_published_rules():
    share, _ = ends(TextWorld("sync-v9"), tasks("test", "sync-v9"), randomly)
    assert share["easy"] == pytest.approx(0.151, abs=0.057)  # three standard errors of 350 tasks
    assert {share[name] for name in DIFFICULTIES[1:]} == {0}


@pytest.mark.slow
@pytest.mark.parametrize("source", ["installed", None])
def test_strict_wants_the_recipe_on_every_test_task(source):
    world, some = TextWorld("strict"), tasks("test", "strict", source)
    assert len(some) == 1_400
    share, _ = ends(world, some, greedily)
    assert (share["hard"], share["extreme"]) == (0, 0)
    assert max(share.values()) < 0.01
    share, steps = ends(world, some, honestly)
    assert min(share["easy"], share["medium"]) >= 0.95
    assert share == dict.fromkeys(DIFFICULTIES, 1)
    assert all(least > 0 for _, _, least in figures(steps))


def test_every_fortieth_test_task_under_both_profiles():
    sync, strict = TextWorld("sync-v9"), TextWorld("strict")
    some = tasks("test", "sync-v9", None, 40)
    assert ends(sync, some, greedily)[0] == dict.fromkeys(DIFFICULTIES, 1)
    assert ends(sync, some, in_sequence)[0] == dict.fromkeys(DIFFICULTIES, 1)
    some = tasks("test", "strict", None, 40)
    assert ends(strict, some, greedily)[0] == dict.fromkeys(DIFFICULTIES, 0)
    assert ends(strict, some, honestly)[0] == dict.fromkeys(DIFFICULTIES, 1)
    assert ends(strict, some, lending)[0] == dict.fromkeys(DIFFICULTIES, 1)


@pytest.mark.parametrize("profile", TextWorld.profiles)
def test_a_saboteur_ruins_or_burns(profile):
    world = TextWorld(profile)
    rng = random.Random(3)
    task = tasks("test", profile, None, 40)[-1]
    state = alone(world, task, lambda state, agent: sabotage(world, state, agent, rng))
    assert world.over(state) == ("failure" if profile == "strict" else "exhausted")


def test_the_honest_solver_reads_the_cookbook_when_its_goal_is_coarse():
    world, state = start("strict")
    assert solve(state, ROOT, Notes.of("prepare and eat dish_1")) == "read cookbook"
    told = Notes.of("prepare and eat dish_1: salt (raw, uncut), carrot (fried, chopped)")
    told.see(state, ROOT)
    assert solve(state, ROOT, told) == "take knife"
    book = world.apply(state, ROOT, Action(COMMAND, {"text": "read cookbook"}))[1].result
    assert read_recipes(book)["dish_2"] == {"red onion": Wanted(3, 3), "onion": Wanted(2, 0)}


def test_the_solver_knows_only_what_it_saw():
    _, state = start("strict")
    notes = Notes.of("dish_2")
    notes.see(state, ROOT)
    assert set(notes.seen) == {state.kitchen.things[i] for i, p in enumerate(state.places[:-1]) if p == 0} | {"knife"}


def test_greedy_is_done_when_its_dishes_are_eaten():
    world, state = start("sync-v9")
    done = state._replace(prepared=1, eaten=1)
    assert greedy(world, done, ROOT, dishes=(0,)) is None
    assert greedy(world, done, ROOT, dishes=(1,)) is not None
    assert greedy(world, done._replace(prepared=3, eaten=3), ROOT) is None
