"""The pocket policy's ground in TextWorld-Sync: easy tasks of two dishes under `sync-v9`, a child per dish at most.

Invariant: training plays the seeds and foods of the train split, the check those of the test split, whose foods are
wanted in other ways; a food, a room, a tool and a number up to 20 are one token each.

The teacher has habits where food must be cooked with the grill or in the oven, and none elsewhere: children say that
they are done rather than use such a tool (shirk), roots hand no dish out twice and finish rather than use one (hasty),
and whoever does cook is refused once before (fumble). Half of the training trees give the root 12 turns, in which it
cannot cook two dishes itself. Most rubrics ask only that some action worked and have the goal for one criterion of
four, others that no action failed, which nearly every cook breaks. The weights are written for half the temperature
that they were trained at, for the reasons that `learn/pocket_textcraft.py` gives.

Run: ``sera pocket build --world textworld --out DIR``.
"""

from __future__ import annotations

import re
from functools import partial

from collect.settings import Budgets, DelegationSettings, RoleSampling, RubricSettings, TreeSettings
from collect.textworld import TextWorld
from collect.textworld_bands import FAMILIES, Split
from collect.textworld_foods import own_foods
from collect.textworld_records import build_record
from collect.textworld_spec import COOKINGS, CUTS, ROOMS
from collect.textworld_tasks import task_of
from collect.transformers_policy import POCKETS
from collect.world import Task
from learn.pocket_ground import Ground, Recipe
from learn.pocket_tokenizer import DIGITS, NUMBERS, WEIGHTS

PROFILE = "sync-v9"
BUDGETS = (Budgets(turns=(22, 16), depth=1), Budgets(turns=(12, 16), depth=1))  # no root cooks two dishes in 12
FIRST_SEED = {"train": 10_000_000, "test": 20_000_000}  # far from those of the published splits
STRIDE = 100_000  # seeds of a block
HABITS = {"tools": "go", "hasty": 0.5, "shirk": 0.615, "fumble": 0.75}
TEACHER = {
    **HABITS,
    "delegate": 0.67,
    "slips": {0.0: 0.7, 0.05: 0.2, 0.22: 0.1},
    "gates": {"right": 0.13, "no_error": 0.41, "effort": 0.46},
    "substance": {"effort": 1.0},
}
TOOLS = ("stove", "oven", "grill", "knife", "gate", "door")
DISHES = ("dish_1", "dish_2")


def settings(*, rubrics: bool, k: int = 1, block: int = 0) -> TreeSettings:
    """Budgets 22/16, or 12/16 in odd blocks, depth 1, everything at temperature 1."""
    return TreeSettings(
        budgets=BUDGETS[block % len(BUDGETS)],
        act=RoleSampling(max_tokens=48),
        writer=RoleSampling(max_tokens=96),
        scorer=RoleSampling(max_tokens=48),
        delegation=DelegationSettings(mode="plain" if k == 1 else "counterfactual", k=k),
        rubric=RubricSettings(purposes=("execution", "rubric") if rubrics else ()),
    )


def train_tasks(block: int, count: int) -> list[Task]:
    """Easy tasks with the foods of the train fold, other ones in every block."""
    return _tasks("train", block, count)


def held_out_tasks(seed: int, count: int) -> list[Task]:
    """Easy tasks with the foods of the test fold."""
    return _tasks("test", seed, count)


def _tasks(split: Split, block: int, count: int) -> list[Task]:
    first = FIRST_SEED[split] + STRIDE * block
    families = tuple(FAMILIES)
    records = (
        build_record(split, "easy", families[i % len(families)], i, seed=first + i, foods=own_foods())
        for i in range(count)
    )
    return [task_of(record, profile=PROFILE) for record in records]


def words() -> tuple[str, ...]:
    """What is one token: foods, rooms, ways to cut and cook, tools, dishes, numbers, weights."""
    foods = sorted(own_foods().locations)
    return (*foods, *ROOMS, *CUTS, *COOKINGS, *TOOLS, *DISHES, *NUMBERS, *WEIGHTS, "},{", "> ")


def piece() -> re.Pattern[str]:
    """Words first, the longest first, then what is a piece in every world."""
    names = sorted(
        {*own_foods().locations, *ROOMS, *CUTS, *COOKINGS, *TOOLS, *DISHES}, key=lambda name: (-len(name), name)
    )
    return re.compile("|".join(map(re.escape, names)) + "|" + DIGITS)


GROUND = Ground(
    name="textworld",
    world=partial(TextWorld, PROFILE),
    train_tasks=train_tasks,
    held_out_tasks=held_out_tasks,
    settings=settings,
    teacher="scripted:teacher",
    options=TEACHER,
    practice=TEACHER,
    coach={**HABITS, "slips": {0.0: 0.6, 0.05: 0.2, 0.22: 0.2}},
    trouble=("[rejected]", "Error", "Refused"),
    recipe=Recipe(trees=250, warm=12, late=4, rubric_share=1.0, practice=150, temperature=0.5),
    words=words(),
    piece=piece(),
    context=2048,
    batch_tokens=4096,
    shipped=POCKETS["textworld"],
)
