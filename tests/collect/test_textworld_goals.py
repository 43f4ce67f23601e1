"""Goals in words: what they name becomes conditions, what names nothing checkable stays without a verdict."""

import pytest

from collect.textworld_goals import conditions_of, judge, merged
from tests.collect.textworld_lab import OTHER, do, play, start

ALL_1 = ["salt", "carrot"]
ALL_2 = ["red onion", "onion"]


def pairs(text):
    """'ready salt, not eaten dish_1' as conditions."""
    return [list(part.rsplit(" ", 1)) if "onion" not in part else _onion(part) for part in text.split(", ")]


def _onion(part):
    kind, _, rest = part.partition(" ")
    return [kind, rest]


@pytest.mark.parametrize(
    "goal, conditions",
    [
        ("Take the salt.", "taken salt"),
        ("take salt and carrot", "taken salt, taken carrot"),
        ("chop and fry the carrots", "chopped carrot, fried carrot"),
        ("Chop the carrot, then fry it.", "chopped carrot, fried carrot"),
        ("dice the red onion", "diced red onion"),
        ("slice the onion", "sliced onion"),
        ("cut the onion", "cut onion"),
        ("The carrot must be chopped and fried", "chopped carrot, fried carrot"),
        ("Get the carrot ready", "taken carrot, ready carrot"),
        ("prepare the carrot", "ready carrot"),
        ("Cook the carrot in the oven", "cooked carrot, roasted carrot"),
        ("Cook the red onion on the grill", "cooked red onion, grilled red onion"),
        ("Bring salt to the counter", "taken salt, placed salt"),
        ("collect salt and carrot, put them on the counter", "taken salt, taken carrot, placed salt, placed carrot"),
        ("carrot and onion must be sliced", "sliced carrot, sliced onion"),
        ("make dish_1 and eat the dish", "prepared dish_1, eaten dish_1"),
        (
            "process the foods of dish_1: salt (raw, uncut). Do not prepare the dish.",
            "ready salt, ready carrot, not prepared dish_1",
        ),
        ("take salt for dish_1 and put it on the counter", "taken salt, placed salt"),
        ("find and take the carrot", "taken carrot"),
        ("Collect all ingredients for dish_1", "taken salt, taken carrot"),
        ("gather every ingredient of dish_1 except salt", "taken carrot"),
        ("prepare dish_1's ingredients", "ready salt, ready carrot"),
        (
            "Prepare the ingredients for dish_1 and dish_2",
            "ready salt, ready carrot, ready red onion, ready onion",
        ),
        ("prepare and eat dish_2", "prepared dish_2, eaten dish_2"),
        ("Make sure dish_2 is eaten", "eaten dish_2"),
        ("Do dish 2", "prepared dish_2, eaten dish_2"),
        ("Prepare dish_1 and finish.", "prepared dish_1"),
        ("Prepare dish_1 but do not eat it", "prepared dish_1, not eaten dish_1"),
        ("take carrot. Do not touch the salt.", "taken carrot, not taken salt"),
        ("Finish all dishes", "prepared dish_1, eaten dish_1, prepared dish_2, eaten dish_2"),
        ("Open the door and take the onion", "gate gate, taken onion"),
        ("Without opening the gate, take the onion", "not gate gate, taken onion"),
        ("Do the following: take salt, chop the carrot", "taken salt, chopped carrot"),
        (
            "Make and eat dish_1: salt (raw, uncut), carrot (fried, chopped). Then finish with a report.",
            "prepared dish_1, eaten dish_1, ready salt, ready carrot, fried carrot, chopped carrot",
        ),
        (
            "Take carrot\nchop it\ncook it in stove\nthen prepare dish_1 and eat it",
            "taken carrot, chopped carrot, cooked carrot, fried carrot, prepared dish_1, eaten dish_1",
        ),
    ],
)
def test_what_a_goal_names(goal, conditions):
    _, state = start("strict")
    assert conditions_of(state.kitchen, goal) == pairs(conditions)


@pytest.mark.parametrize(
    "goal",
    [
        "help with dish_1",
        "find out where the salt is",
        "Check the cookbook and report the recipe of dish_1",
        "explore the garden",
        "do not eat dish_1",
        "take the potato",
        "prepare and eat dish_9",
        "eat",
        "Put down the salt",
        "work hard, be quick",
        "",
    ],
)
def test_goals_without_anything_checkable(goal):
    _, state = start("strict")
    assert conditions_of(state.kitchen, goal) is None


def verdict(goal, changes, before=()):
    world, state = start("sync-v9")
    state = play(world, state, *before)
    return judge(state, conditions_of(state.kitchen, goal), changes)


def test_own_changes_count_and_what_held_before_does_not():
    got = [{"taken": ["carrot"]}, {"room": "pantry"}, {"cut": {"carrot": "chopped"}}]
    assert verdict("take and chop the carrot", got).success
    missed = verdict("take, chop and fry the carrot", got)
    assert (missed.success, missed.details["missing"]) == (False, [["fried", "carrot"]])
    after = verdict("take and chop the carrot", got[2:], before=["take carrot"])
    assert (after.success, after.details["already"]) == (True, [["taken", "carrot"]])
    nothing = verdict("take the carrot", [], before=["take carrot"])
    assert (nothing.success, nothing.details["already"]) == (False, [["taken", "carrot"]])


def test_what_is_forbidden_or_lost_fails():
    done = {"prepared": ["dish_1"]}
    goal = "prepare dish_1 but do not eat it"
    assert verdict(goal, [done]).success
    assert verdict(goal, [done, {"eaten": ["dish_1"]}]).details["broken"] == [["not eaten", "dish_1"]]
    lost = verdict("take the carrot", [{"taken": ["carrot"]}, {"deleted": ["salt"]}])
    assert (lost.success, lost.details["lost"]) == (False, ["salt"])
    assert verdict("take the carrot", [{"taken": ["carrot"]}, {"deleted": ["a distractor"]}]).success


def test_a_sibling_in_between_earns_nothing_for_a_child():
    world, state = start("strict", OTHER)
    targets = world.check_targets(state, {"goal": "take the carrot and put it on the counter", "max_steps": 5})
    begun, mine = state, []
    for text, agent in (("take carrot", OTHER), ("take salt", None), ("put carrot on counter", OTHER)):
        state, event = do(world, state, text, *([agent] if agent else []))
        if agent is None:
            mine.append(event.delta)
    assert not world.verdict(begun, state, targets, changes=mine).success
    assert world.verdict(begun, state, targets).success, "by start and end alone the work looks like its own"
    assert world.difference(begun, state, changes=mine) == {"taken": ["salt"]}


def test_merged_changes_are_net_and_without_rooms():
    changes = [{"room": "pantry"}, {"taken": ["a"]}, {"taken": ["a"], "cut": {"a": "diced"}}, {"gate": "open"}]
    assert merged(changes) == {"taken": ["a"], "cut": {"a": "diced"}, "gate": "open"}
    assert changes[1] == {"taken": ["a"]}
