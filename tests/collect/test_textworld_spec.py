"""Reading a task: facts, faults with the field's path, the shared budget apart."""

import copy
import re

import pytest

from collect.textworld import TextWorld
from collect.textworld_spec import shared_steps, spec_of
from tests.collect.textworld_lab import task


def test_facts_of_a_task():
    spec = spec_of(task(rooms=3, doors=1, shared=2, cooldown=1, gated=("dish_2",), capacity=2))
    assert [food.wanted for food in spec.foods] == [
        "salt (raw, uncut)",
        "carrot (fried, chopped)",
        "red onion (grilled, diced)",
        "onion (raw, sliced)",
    ]
    assert [food.rooms for food in spec.foods] == [(0,), (0,), (2,), (1,)]
    assert (spec.dishes, spec.n_rooms, spec.doors, spec.cooldown, spec.gated) == (
        ("dish_1", "dish_2"),
        4,
        True,
        1,
        0b10,
    )
    assert (spec.limited, spec.sampled_capacity, spec.shared_capacity, spec.n_distractors) == (True, 2, 2, 3)


def test_rooms_and_sources_beyond_the_known_ones():
    spec = spec_of(task({"d": [("salt", "raw", "uncut", "cellar")]}, rooms=40))
    assert (spec.n_rooms, spec.foods[0].rooms) == (11, (0,))


def test_another_budget_is_the_same_world():
    world, long = TextWorld("strict"), task(steps=90)
    short = world.limited(long, 30)
    assert (shared_steps(short), short.task_id) == (30, long.task_id)
    assert world.reset(short).kitchen is world.reset(long).kitchen
    assert (world.reset(short).limit, world.reset(long).limit) == (60, 180)


def broken(path, value):
    """A task whose spec has another value at a path like 'dishes.0.recipe'."""
    good = task()
    spec = copy.deepcopy(dict(good.spec))
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place = spec
    for part in way:
        place = place[part]
    place[last] = value
    return type(good)(**{name: getattr(good, name) for name in good.__slots__} | {"spec": spec})


@pytest.mark.parametrize(
    "path, value, reason",
    [
        ("game_params", None, "a TextWorld spec has an object 'game_params', got None"),
        ("parallelism", [], "a TextWorld spec has an object 'parallelism', got []"),
        ("game_params.numLocations", "7", "game_params.numLocations must be a whole number from 0, got '7'"),
        ("game_params.includeDoors", None, "game_params.includeDoors must be a whole number from 0, got None"),
        ("game_params.limitInventorySize", -1, "game_params.limitInventorySize must be a whole number from 0, got -1"),
        ("inventory_capacity", 1.5, "spec.inventory_capacity must be a whole number from 0, got 1.5"),
        ("dishes", [], "spec.dishes must be a list with at least one dish, got []"),
        ("dishes", "dish_1", "spec.dishes must be a list with at least one dish"),
        ("dishes.0.dish_id", 7, "spec.dishes[0].dish_id must be a text"),
        ("dishes.1.dish_id", "dish_1", "spec.dishes[1] must have an id of its own"),
        ("dishes.1.recipe", [], "spec.dishes[1] must have an id of its own and a recipe"),
        ("dishes.1.recipe.0.name", "salt", "spec.dishes[1].recipe[0].name: 'salt' is in two recipes"),
        ("dishes.0.recipe.1.name", "", "spec.dishes[0].recipe[1].name must be a text"),
        ("dishes.0.recipe.1.preparation", ["boiled", "chopped"], "spec.dishes[0].recipe[1].preparation must be ["),
        ("dishes.0.recipe.1.preparation", 3, "spec.dishes[0].recipe[1].preparation must be ["),
        ("dishes.0.recipe.0.candidate_source_locations", "kitchen", "must be a list of texts"),
        ("parallelism.dependencies", {}, None),
        ("parallelism.dependencies", [{"from": "gate_1", "to": "dish_7"}], "leads to 'dish_7', which is no dish"),
        ("parallelism.dependencies", ["gate_1"], "must be a list of objects"),
        ("parallelism.shared_environment_max_steps", 0, "must be at least 1, got 0"),
        ("parallelism.shared_environment_max_steps", "9", "must be a whole number from 0, got '9'"),
        ("parallelism.mechanisms.tool_cooldown_steps", -1, "tool_cooldown_steps must be a whole number from 0"),
        ("parallelism.resource_capacity", {"inventory": "x"}, "resource_capacity.inventory must be a whole number"),
    ],
)
@pytest.mark.parametrize("profile", TextWorld.profiles)
def test_a_faulty_spec_names_its_field(profile, path, value, reason):
    world = TextWorld(profile)
    if reason is None:
        world.reset(broken(path, value))
        return
    with pytest.raises(ValueError, match=re.escape(reason)):
        world.reset(broken(path, value))


@pytest.mark.parametrize("profile", TextWorld.profiles)
def test_a_food_called_like_a_command_is_a_fault(profile):
    with pytest.raises(ValueError, match="two commands read 'take knife'"):
        TextWorld(profile).reset(task({"d": [("knife", "raw", "uncut", "kitchen")]}))
