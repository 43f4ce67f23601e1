"""Habits of the teacher's cooks in TextWorld-Sync: which tools they dislike, and what they do then."""

from __future__ import annotations

import asyncio
import json

import pytest

from collect.dialect import dialect_for
from collect.scripted import open_policy
from collect.services import Services, TreePlan
from collect.settings import Budgets, DelegationSettings, RubricSettings, TreeSettings
from collect.textworld import TextWorld
from collect.textworld_tasks import TextWorldParams, tasks_of
from collect.tree import run_tree
from sera_data.errors import UsageError

CLEAN = {"slips": {0.0: 1.0}, "delegate": 1.0}
TOOLS = {"grill": "g", "oven": "o", "stove": "s"}


def play(**options):
    """(tools that the task's foods need, tree) of every task."""
    params = TextWorldParams(generator="textworld", split="test", difficulties=("easy",), per_cell=3)
    policy = open_policy("teacher", options={**CLEAN, **options})
    settings = TreeSettings(
        budgets=Budgets(turns=(22, 16), depth=1),
        delegation=DelegationSettings(mode="plain"),
        rubric=RubricSettings(purposes=()),
    )
    world = TextWorld("sync-v9")
    services = Services(
        world=world,
        policies=dict.fromkeys(("act", "writer", "scorer"), policy),
        settings=settings,
        style="terse",
        dialect=dialect_for(world, "auto"),
    )
    tasks = tasks_of(params, profile="sync-v9")
    played = [asyncio.run(run_tree(TreePlan("habits", 0, task, 0, "eval", 3), services)) for task in tasks]
    return [({TOOLS[tool] for tool in TOOLS if tool in commands(result)}, result) for result in played]


def commands(result):
    """All that was commanded, in one text."""
    return " ".join(json.dumps(action(turn)) for turn in result.rows["turns"] if turn["kind"] == "act")


def action(turn):
    return json.loads(turn["action"])


def test_without_habits_every_easy_task_is_won():
    played = play()
    assert all(result.root.success for _, result in played)
    assert {letter for letters, _ in played for letter in letters} == {"g", "o", "s"}


def test_who_shirks_says_done_instead_of_cooking_with_a_disliked_tool():
    needed = [letters for letters, _ in play()]
    shirked = play(shirk=1.0, tools="go")
    for letters, (used, result) in zip(needed, shirked, strict=True):
        assert not used & {"g", "o"}
        assert result.root.success is not bool(letters & {"g", "o"})
        assert all(turn["ok"] for turn in result.rows["turns"])  # nothing went wrong on the way
    assert {result.root.success for _, result in shirked} == {True, False}


def test_a_hasty_root_hands_no_dish_out_twice():
    patient, hasty = play(shirk=1.0, tools="gos"), play(shirk=1.0, hasty=1.0, tools="gos")
    failed = [(a.root, b.root) for (_, a), (_, b) in zip(patient, hasty, strict=True) if not a.root.success]
    assert failed
    assert all(a.n_delegations > b.n_delegations and not b.success for a, b in failed)


def test_a_hasty_root_that_works_alone_shirks_too():
    played = play(hasty=1.0, delegate=0.0, tools="gos")
    assert {result.root.success for _, result in played} >= {False}
    assert not any(used for used, _ in played)


def test_who_fumbles_is_refused_once_and_goes_on():
    for letters, result in play(fumble=1.0, tools="go"):
        refused = {}
        for turn in result.rows["turns"]:
            refused.setdefault(turn["node_id"], []).append(not turn["ok"])
        assert result.root.success
        assert all(sum(turns) <= 1 for turns in refused.values())
        assert any(any(turns) for turns in refused.values()) is bool(letters & {"g", "o"})


@pytest.mark.parametrize("tools", ["x", None, "grill"])
def test_other_letters_are_refused(tools):
    with pytest.raises(UsageError, match="letters out of 'gos'"):
        open_policy("teacher", options={"tools": tools})
