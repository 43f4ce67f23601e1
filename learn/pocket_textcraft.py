"""The pocket policy's ground in TextCraft: random small worlds, tiers 1-3, roots with 14 or 9 turns, depth 2.

Invariant: worlds of training (1000-1499) and of the check (5000-5099) never meet, so that recipes are read and not
remembered; an item, a number up to 20 and a weight of one or two digits are one token each.

The teacher has habits in four of the five item families, and none in the fifth. Children claim to be done as soon as
they have looked a recipe up (shirk), agents claim it as soon as something was made on the way (hasty), and whoever does
work asks for one ingredient too many at first and repairs it (fumble). In those families shirking is the likelier
reply, so a lower temperature gives nothing; training does. Rubrics that punish any failed action pay the shirker best.

The weights are written for sampling at half the temperature that they were trained at (`Recipe.temperature`), because
the tail of so small a model fails more tasks than the habits do. Sampling there squares odds: HABITS and the weights
of the gates are about the square roots of what the policy shows.

Run: ``sera pocket build --out DIR``.
"""

from __future__ import annotations

import re

from collect.settings import Budgets, DelegationSettings, RoleSampling, RubricSettings, TreeSettings
from collect.textcraft import TextCraft
from collect.textcraft_tasks import build_tasks
from collect.transformers_policy import POCKETS
from collect.world import Task
from learn.pocket_ground import Ground, Recipe
from learn.pocket_tokenizer import DIGITS, NUMBERS, WEIGHTS

TRAIN_WORLDS = "1000-1499"
HELD_OUT_WORLDS = "5000-5099"
SMALL = {"items_per_tier": 8, "max_tier": 3}
BUDGETS = (Budgets(turns=(14, 10, 8), depth=2), Budgets(turns=(9, 9, 8), depth=2))
VARIANTS = 8
TIERS = (1, 2, 3)
FAMILIES = "mcoa"
HABITS = {"families": FAMILIES, "hasty": 0.36, "shirk": 0.53, "fumble": 0.55}
TEACHER = {
    **HABITS,
    "delegate": 0.67,
    "slips": {0.0: 0.7, 0.05: 0.2, 0.22: 0.1},
    "gates": {"right": 0.275, "under": 0.127, "finish": 0.312, "no_error": 0.286},
    "substance": {"under": 0.5, "finish": 0.7},
}
ITEM = re.compile(r"raw_[oat][0-7]|[mc][0-7]_ore|[mcoat][0-7]_i[1-3]")
PIECE = re.compile(ITEM.pattern + "|" + DIGITS)


def settings(*, rubrics: bool, k: int = 1, block: int = 0) -> TreeSettings:
    """Budgets 14/10/8, or 9/9/8 in odd blocks, depth 2, everything at temperature 1."""
    return TreeSettings(
        budgets=BUDGETS[block % len(BUDGETS)],
        act=RoleSampling(max_tokens=64),
        writer=RoleSampling(max_tokens=64),
        scorer=RoleSampling(max_tokens=32),
        delegation=DelegationSettings(mode="plain" if k == 1 else "counterfactual", k=k),
        rubric=RubricSettings(purposes=("execution", "rubric") if rubrics else ()),
    )


def train_tasks(block: int, count: int) -> list[Task]:
    """Tasks of one block, over all training worlds."""
    return build_tasks({"worlds": TRAIN_WORLDS, "n": count, "split": "train", "seed": block, **SMALL})


def held_out_tasks(seed: int, count: int) -> list[Task]:
    """Tasks of the check, over worlds that training never saw."""
    return build_tasks({"worlds": HELD_OUT_WORLDS, "n": count, "split": "val", "seed": seed, **SMALL})


def items() -> list[str]:
    """Names of all items of worlds with 8 items per tier and tiers 1-3."""
    bases = [f"{d}{i}_ore" for d in "mc" for i in range(VARIANTS)] + [
        f"raw_{d}{i}" for d in "oat" for i in range(VARIANTS)
    ]
    return bases + [f"{d}{i}_i{tier}" for d in "mcoat" for tier in TIERS for i in range(VARIANTS)]


GROUND = Ground(
    name="textcraft",
    world=TextCraft,
    train_tasks=train_tasks,
    held_out_tasks=held_out_tasks,
    settings=settings,
    teacher="scripted:teacher",
    options=TEACHER,
    practice=TEACHER,
    coach={**HABITS, "hasty": 0.0, "slips": {0.0: 0.6, 0.05: 0.2, 0.22: 0.2}},
    trouble=("Error", "Refused"),
    recipe=Recipe(warm=21, late=4, practice=300, temperature=0.5),
    words=(*items(), *NUMBERS, *WEIGHTS, "},{", "> "),
    piece=PIECE,
    context=1024,
    batch_tokens=2048,
    shipped=POCKETS["textcraft"],
)
