"""Profile strict: hands, rooms, knife, wrong preparations, distractors, reasons, the end."""

import pytest

from collect.textworld_strict import BUDGET_SCALE, DISTRACTORS
from tests.collect.textworld_lab import OTHER, ROOT, do, play, start, task

MAKE_CARROT = ("take knife", "take carrot", "chop carrot", "cook carrot in stove", "put carrot on counter")
MAKE_ALL = (
    *MAKE_CARROT,
    "take salt",
    "put salt on counter",
    "prepare dish_1",
    "eat dish_1",
    "go to garden",
    "take red onion",
    "dice red onion",
    "cook red onion on grill",
    "go to kitchen",
    "put red onion on counter",
    "go to pantry",
    "take onion",
    "slice onion",
    "go to kitchen",
    "put onion on counter",
    "prepare dish_2",
    "eat dish_2",
)


def test_the_whole_task_within_the_budget_is_a_success_and_then_nothing_is_applied():
    world, state = start("strict")
    state = play(world, state, *MAKE_ALL[:-1])
    state, event = do(world, state, MAKE_ALL[-1])
    assert (event.feedback, world.over(state), state.steps) == ("success", "success", len(MAKE_ALL))
    after, event = do(world, state, "go to pantry")
    assert (after is state, event.ok, event.feedback) == (True, False, "rejected")
    assert world.commands(state, ROOT) == []


def test_a_spent_budget_ends_the_world_one_step_before_success():
    world, state = start("strict", steps=len(MAKE_ALL) // 2 - 1)
    assert state.limit == BUDGET_SCALE * (len(MAKE_ALL) // 2 - 1) < len(MAKE_ALL)
    feedback = []
    for text in MAKE_ALL:
        state, event = do(world, state, text)
        feedback.append(event.feedback)
    assert feedback[state.limit - 1 :] == ["exhausted"] + ["rejected"] * (len(MAKE_ALL) - state.limit)
    assert (world.over(state), state.steps) == ("exhausted", state.limit)


def test_success_on_the_last_step_counts():
    world, state = start("strict", steps=len(MAKE_ALL) // 2)
    state = play(world, state, *MAKE_ALL)
    assert (state.steps, world.over(state)) == (state.limit, "success")


def test_every_cut_and_cooking_of_a_held_thing_is_offered_with_knife_and_device():
    world, state = start("strict")
    state = play(world, state, "take carrot")
    assert not [c for c in world.commands(state, ROOT) if c.endswith(" carrot") and c[:4] in ("chop", "slic", "dice")]
    state = play(world, state, "take knife")
    mine = [c for c in world.commands(state, ROOT) if "carrot" in c]
    assert mine == [
        "chop carrot",
        "slice carrot",
        "dice carrot",
        "cook carrot in stove",
        "cook carrot in oven",
        "put carrot on counter",
        "drop carrot",
        "eat carrot",
    ]
    state = play(world, state, "go to garden")
    assert "cook carrot on grill" in world.commands(state, ROOT)
    assert "cook carrot in stove" not in world.commands(state, ROOT)


@pytest.mark.parametrize(
    "texts, delta",
    [
        (["take knife", "take carrot", "dice carrot"], {"cut": {"carrot": "diced"}, "spoiled": ["carrot"]}),
        (["take carrot", "cook carrot in oven"], {"cooked": {"carrot": "roasted"}, "spoiled": ["carrot"]}),
        (["take salt", "cook salt in stove"], {"cooked": {"salt": "fried"}, "spoiled": ["salt"]}),
        (["take salt", "eat salt"], {"deleted": ["salt"]}),
        (
            ["take salt", "put salt on counter", "take carrot", "put carrot on counter", "prepare dish_1"],
            {"prepared": ["dish_1"], "spoiled": ["carrot"]},
        ),
    ],
)
def test_wrong_preparation_and_loss_cannot_be_undone_and_fail_the_task(texts, delta):
    world, state = start("strict")
    state = play(world, state, *texts[:-1])
    state, event = do(world, state, texts[-1])
    assert (event.ok, event.feedback, event.delta) == (True, "failure", delta)
    assert world.over(state) == "failure"
    after, event = do(world, state, "wait")
    assert (after is state, event.feedback) == (True, "rejected")


@pytest.mark.parametrize(
    "before, text, reason",
    [
        ([], "chop carrot", "you do not hold the carrot"),
        (["take carrot"], "chop carrot", "you need the knife in your hands"),
        (["take carrot", "take knife", "chop carrot"], "chop carrot", "the carrot is chopped already"),
        (["take carrot", "cook carrot in stove"], "cook carrot in oven", "the carrot is fried already"),
        (["take carrot"], "cook carrot on grill", "the grill is in the garden"),
        (["take carrot"], "take salt", "your hands are full, they hold 1"),
        (["take carrot"], "take carrot", "you hold the carrot"),
        ([], "take onion", "no onion is here"),
        (["take knife"], "take knife", "you have the knife"),
        (["go to pantry"], "take knife", "no knife is here"),
        ([], "drop knife", "you do not have the knife"),
        ([], "drop salt", "you do not hold the salt"),
        ([], "put salt on counter", "you do not hold the salt"),
        (["take salt", "go to pantry"], "put salt on counter", "the counter is in the kitchen"),
        ([], "eat salt", "you do not hold the salt"),
        ([], "prepare dish_1", "not on the counter: salt, carrot"),
        (["go to pantry"], "prepare dish_1", "dishes are prepared in the kitchen"),
        ([], "eat dish_1", "dish_1 is not there to be eaten"),
        ([], "go to kitchen", "you are in the kitchen already"),
        ([], "open door", "the gate is open"),
        (["go to pantry"], "read cookbook", "the cookbook is in the kitchen"),
        ([], "Take salt", "no command reads 'Take salt'"),
        ([], "move north", "no command reads 'move north'"),
    ],
)
def test_a_refusal_says_why_costs_a_step_and_changes_nothing_else(before, text, reason):
    world, state = start("strict")
    state = play(world, state, *before)
    after, event = do(world, state, text)
    assert (event.ok, event.feedback, event.delta) == (False, "rejected", None)
    assert event.result == f"Refused: {reason}."
    assert after == state._replace(steps=state.steps + 1)


def test_waiting_is_free_and_lets_tools_cool_down():
    recipes = {"d": [("a", "raw", "diced", "kitchen"), ("b", "raw", "diced", "kitchen")]}
    world, state = start("strict", recipes=recipes, cooldown=1, limited=0)
    state = play(world, state, "take knife", "take a", "take b", "dice a")
    assert do(world, state, "dice b")[1].result == "Refused: the knife was just used, wait."
    after, event = do(world, state, "wait")
    assert (event.feedback, after) == ("ok", state._replace(cool=(0, 0, 0, 0)))
    play(world, after, "dice b")


@pytest.mark.parametrize("text", ["look around", "inventory", "Check  Inventory", "read cookbook"])
def test_information_is_free(text):
    world, state = start("strict")
    after, event = do(world, state, text)
    assert (after is state, event.ok, event.feedback) == (True, True, "info")


def test_the_cookbook_reveals_the_recipes():
    world, state = start("strict")
    assert do(world, state, "read cookbook")[1].result == (
        "The cookbook says: dish_1: salt (raw, uncut), carrot (fried, chopped); "
        "dish_2: red onion (grilled, diced), onion (raw, sliced)."
    )


def test_the_gate_shuts_off_rooms_and_opens_from_the_kitchen():
    world, state = start("strict", doors=1, gated=("dish_1",))
    assert not {"go to garden", "go to supermarket", "take salt"} & set(world.commands(state, ROOT))
    assert do(world, state, "go to garden")[1].result == "Refused: the gate to the garden is closed."
    assert do(world, state, "take salt")[1].result == "Refused: the salt is locked away until the door is open."
    away = play(world, state, "go to pantry")
    assert do(world, away, "open door")[1].result == "Refused: the gate is opened from the kitchen."
    state = play(world, state, "open door")
    assert {"go to garden", "go to supermarket", "take salt"} <= set(world.commands(state, ROOT))


def test_hands_are_each_agents_own_and_what_is_put_down_can_be_taken():
    world, state = start("strict", OTHER)
    state = play(world, state, "take carrot", "take knife")
    assert do(world, state, "chop carrot", OTHER)[1].result == "Refused: you do not hold the carrot."
    state = play(world, state, "take salt", agent=OTHER)
    state = play(world, state, "drop carrot", "drop knife")
    state = play(world, state, "put salt on counter", "take carrot", "take knife", "chop carrot", agent=OTHER)
    assert state.held == (1,)


def test_a_thing_comes_back_from_the_counter_until_its_dish_is_prepared():
    world, state = start("strict")
    state = play(world, state, "take salt", "put salt on counter", "take salt", "put salt on counter", *MAKE_CARROT)
    state = play(world, state, "prepare dish_1")
    assert state.counter == 0
    assert do(world, state, "take salt")[1].result == "Refused: no salt is here."


def test_what_an_agent_carried_is_put_down_where_it_left():
    world, state = start("strict", OTHER)
    state = play(world, state, "take carrot", "take knife", "go to pantry", agent=OTHER)
    state = world.leave(state, OTHER)
    assert (state.agents, state.rooms, state.held) == (("root",), (0,), ())
    play(world, state, "go to pantry", "take carrot", "take knife", "chop carrot")


@pytest.mark.parametrize(
    "settings, capacity",
    [
        ({"limited": 0, "capacity": 2}, 0),
        ({"limited": 1, "capacity": 2}, 2),
        ({"limited": 1, "capacity": 1}, 1),
        ({"limited": 1, "capacity": None}, 1),
        ({"limited": 0, "shared": 2}, 2),
    ],
)
def test_capacity_is_as_sampled(settings, capacity):
    _, state = start("strict", **settings)
    assert state.kitchen.capacity == capacity


def test_distractors_are_things_drawn_from_the_seed_and_harmless():
    world, state = start("strict", distractors=12, rooms=11, limited=0)
    again = start("strict", distractors=12, rooms=11, limited=0)[1]
    other = start("strict", distractors=12, rooms=11, limited=0, seed=8)[1]
    assert state == again
    assert (state.kitchen.things, state.places) != (other.kitchen.things, other.places)
    extra = state.kitchen.things[4:]
    assert len(extra) == 12
    assert set(extra) <= set(DISTRACTORS)
    name, place = extra[0], state.places[4]
    room = state.kitchen.spec.rooms[place]
    way = [] if place == 0 else [f"go to {room}"]
    state = play(world, state, "take knife", *way, f"take {name}", f"chop {name}", f"eat {name}")
    assert world.over(state) is None
    assert state.deleted == 1 << 4


def test_more_distractors_than_there_are_names_is_a_fault_of_the_task():
    with pytest.raises(ValueError, match=r"numDistractorItems is at most 36 here, got 37"):
        start("strict", distractors=37)


def test_what_is_seen_shows_hands_marks_and_reasons_but_no_readiness():
    world, state = start("strict", OTHER, doors=1, distractors=0, cooldown=1)
    state = play(world, state, "take knife", "take carrot", "chop carrot")
    state = play(world, state, "take salt", "put salt on counter", agent=OTHER)
    assert world.observe(state, ROOT).splitlines()[:-1] == [
        "Room: kitchen (stove, oven, counter, cookbook)",
        "You see: (none)",
        "You carry: carrot (chopped), knife; hands hold 1, the knife aside",
        "Gate to garden and supermarket: closed",
        "Tools cooling down: none",
        "Counter: salt",
        "Dishes:",
        "- dish_1: 1 of 2 foods on the counter",
        "- dish_2: 0 of 2 foods on the counter",
        "Shared steps left: 115",
    ]


def test_the_budget_is_the_tasks_times_the_scale():
    _, state = start("strict", steps=75)
    assert state.limit == 75 * BUDGET_SCALE
    assert task(steps=75).spec["parallelism"]["shared_environment_max_steps"] == 75
