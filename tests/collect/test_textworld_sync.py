"""Profile sync-v9: commands, effects and costs as published, holes included."""

import pytest

from tests.collect.textworld_lab import OTHER, ROOT, do, play, start


def offered(world, state, agent=ROOT):
    return world.commands(state, agent)


def test_the_first_list_is_in_the_published_order():
    world, state = start("sync-v9", doors=1)
    assert offered(world, state) == [
        "look around",
        "inventory",
        "read cookbook",
        "go to pantry",
        "go to garden",
        "go to supermarket",
        "go to hallway",
        "go to dining room",
        "move north",
        "move south",
        "move east",
        "move west",
        "open door",
        "take knife",
        "take salt",
        "take carrot",
    ]


def test_only_wanted_preparations_are_offered_and_a_finished_food_goes_to_the_counter():
    world, state = start("sync-v9")
    state = play(world, state, "take carrot")
    assert [c for c in offered(world, state) if "carrot" in c] == ["chop carrot", "cook carrot in stove"]
    assert not [c for c in offered(world, state) if c.startswith("take s")], "hands are full"
    for wrong in ("slice carrot", "dice carrot", "cook carrot in oven", "cook carrot on grill"):
        after, event = do(world, state, wrong)
        assert (event.ok, event.feedback, event.delta) == (False, "rejected", None)
        assert after == state._replace(steps=state.steps + 1)
    state = play(world, state, "cook carrot in stove")
    state, event = do(world, state, "chop carrot")
    assert event.delta == {"cut": {"carrot": "chopped"}, "ready": ["carrot"], "placed": ["carrot"]}
    assert (state.held, state.counter) == ((), 0b10)
    state, event = do(world, state, "take salt")
    assert event.delta == {"taken": ["salt"], "ready": ["salt"], "placed": ["salt"]}
    state, event = do(world, state, "prepare dish_1")
    assert event.delta == {"prepared": ["dish_1"]}
    state, event = do(world, state, "eat dish_1")
    assert (event.delta, event.feedback) == ({"eaten": ["dish_1"]}, "ok")


def test_an_agent_in_the_attic_cuts_and_cooks_what_another_took():
    world, state = start("sync-v9", OTHER, rooms=11)
    state = play(world, state, "go to attic", agent=OTHER)
    state = play(world, state, "take carrot")
    state = play(world, state, "chop carrot", "cook carrot in stove", agent=OTHER)
    assert state.counter == 0b10
    assert state.rooms == (0, 9)


@pytest.mark.parametrize("cooldown, away", [(0, 0), (1, 1), (2, 2)])
def test_a_used_tool_is_away_for_as_many_global_steps(cooldown, away):
    recipes = {"d": [("a", "raw", "diced", "kitchen"), ("b", "fried", "diced", "kitchen")]}
    world, state = start("sync-v9", OTHER, recipes=recipes, cooldown=cooldown, limited=0)
    state = play(world, state, "take a", "take b", "dice a")
    missing = 0
    while "dice b" not in offered(world, state):
        missing += 1
        state = do(world, state, "go to pantry" if missing % 2 else "go to kitchen", OTHER)[0]
    assert missing == away
    state = play(world, state, "dice b")
    assert "cook b in stove" in offered(world, state)
    assert (f"knife:{cooldown}" in world.observe(state, ROOT)) == (cooldown > 0)


def test_a_refused_command_costs_a_step_and_lets_tools_cool_down():
    world, state = start("sync-v9", cooldown=1)
    state = play(world, state, "take carrot", "chop carrot")
    assert state.cool == (1, 0, 0, 0)
    after, event = do(world, state, "Take Salt")
    assert (event.ok, event.feedback) == (False, "rejected")
    assert after == state._replace(steps=3, cool=(0, 0, 0, 0))


@pytest.mark.parametrize("text", ["inventory", " View  Inventory ", "CHECK INVENTORY"])
def test_the_inventory_is_free_and_understood_in_any_case(text):
    world, state = start("sync-v9")
    state = play(world, state, "take carrot")
    after, event = do(world, state, text)
    assert after is state
    assert (event.feedback, event.result) == ("info", "In the shared hands: carrot.")


@pytest.mark.parametrize("text", ["look around", "Look  AROUND", "read cookbook"])
def test_looking_and_reading_cost_a_step_and_reveal_no_recipe(text):
    world, state = start("sync-v9")
    after, event = do(world, state, text)
    assert (event.ok, event.feedback, after) == (True, "info", state._replace(steps=1))
    assert "chopped" not in event.result


@pytest.mark.parametrize(
    "settings, capacity",
    [
        ({"limited": 0, "capacity": 2}, 0),
        ({"limited": 1, "capacity": 2}, 1),
        ({"limited": 0, "shared": 2}, 2),
        ({"limited": 1, "shared": 2}, 2),
    ],
)
def test_capacity_is_one_when_limited_unless_declared_as_a_resource(settings, capacity):
    _, state = start("sync-v9", **settings)
    assert state.kitchen.capacity == capacity


def test_a_gate_keeps_the_gated_dishes_only_and_opens_from_anywhere():
    world, state = start("sync-v9", doors=1, gated=("dish_2",))
    state = play(world, state, "go to pantry")
    assert "take onion" not in offered(world, state)
    assert do(world, state, "take onion")[1].feedback == "rejected"
    state, event = do(world, state, "open door")
    assert (event.delta, state.gate) == ({"gate": "open"}, True)
    assert "open door" not in offered(world, state)
    assert "take onion" in offered(world, state)


def test_commands_are_applied_after_the_end_and_success_counts_even_late():
    recipes = {"d": [("salt", "raw", "uncut", "kitchen")]}
    world, state = start("sync-v9", recipes=recipes, steps=2)
    state = play(world, state, "take salt")
    state, event = do(world, state, "prepare d")
    assert (event.feedback, world.over(state)) == ("exhausted", "exhausted")
    state, event = do(world, state, "eat d")
    assert (event.ok, event.feedback, world.over(state), state.steps) == (True, "success", "success", 3)
    state, event = do(world, state, "go to pantry")
    assert (event.ok, event.feedback, state.steps) == (True, "success", 4)


def test_what_is_seen_has_eight_parts_and_no_recipe_inventory_or_score():
    world, state = start("sync-v9", doors=1, cooldown=1)
    state = play(world, state, "take carrot", "chop carrot")
    assert world.observe(state, ROOT).splitlines()[:-1] == [
        "Room: kitchen",
        "You see: salt",
        "Gate of the shared kitchen: closed",
        "Tools cooling down: knife:1",
        "Prepared counter: (empty)",
        "Dishes:",
        "- dish_1: 0 of 2 foods ready, prepared: no, eaten: no",
        "- dish_2: 0 of 2 foods ready, prepared: no, eaten: no",
        "Shared steps left: 58",
    ]
    assert world.observe(state, ROOT).splitlines()[-1].startswith("Commands: look around; inventory; ")


def test_distractors_and_the_knife_do_nothing():
    world, state = start("sync-v9")
    assert state.kitchen.things == ("salt", "carrot", "red onion", "onion")
    after, event = do(world, state, "take knife")
    assert (event.feedback, event.delta, after) == ("ok", None, state._replace(steps=1))
