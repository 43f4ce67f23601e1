"""What is drawn for TextWorld-Sync tasks, as data: splits, families, difficulty bands and the seeds of every cell.

Invariant: a task is fixed by (split, difficulty, family, offset): they give its seed, which no other task has.
Source: the task generation of the SERA paper (arXiv 2610.04902), version 9; seeds, counts and bands as published.

Run: ``sera tasks build textworld --split test --out test.jsonl``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sera_data.errors import UsageError

Difficulty = Literal["easy", "medium", "hard", "extreme"]
Family = Literal[
    "multi_dish_fork_join",
    "critical_path",
    "load_balanced",
    "resource_constrained",
    "dependency_gate",
    "conflict",
    "hierarchical",
]
Split = Literal["train", "dev", "test"]

DIFFICULTIES: tuple[Difficulty, ...] = ("easy", "medium", "hard", "extreme")
FAMILIES: tuple[Family, ...] = (
    "multi_dish_fork_join",
    "critical_path",
    "load_balanced",
    "resource_constrained",
    "dependency_gate",
    "conflict",
    "hierarchical",
)


class Range(NamedTuple):
    """Whole numbers from `low` to `high`, both included, equally likely."""

    low: int
    high: int

    def published(self) -> dict[str, int]:
        """The form that records carry."""
        return {"max": self.high, "min": self.low}


class Choices(NamedTuple):
    """Values that are equally likely; one value is drawn too, which moves the random stream."""

    values: tuple[Any, ...]

    def published(self) -> dict[str, list[Any]]:
        """The form that records carry."""
        return {"choices": list(self.values)}


Draw = Range | Choices


@dataclass(frozen=True, slots=True)
class Band:
    """Parameters of a difficulty in the order in which they are drawn: those of the task, then those of the run."""

    parameters: Mapping[str, Draw]
    runtime: Mapping[str, Draw]
    view: Literal["structured", "coarse"]


NO, YES, EITHER = Choices((False,)), Choices((True,)), Choices((0, 1))


def _band(
    *,
    dishes: Range,
    ingredients: Range,
    rooms: Range,
    distractors: Range,
    limits: Choices,
    capacity: Range,
    least: Range,
    most: Range,
    complexity: tuple[str, ...],
    cooldown: Choices,
    steps: Range,
    view: Literal["structured", "coarse"] = "structured",
) -> Band:
    parameters: dict[str, Draw] = {
        "dish_count": dishes,
        "ingredients_per_dish": ingredients,
        "num_locations": rooms,
        "num_distractor_items": distractors,
        "include_doors": limits,
        "limit_inventory_size": limits,
        "inventory_capacity": capacity,
        "min_prepared_ingredients_per_dish": least,
        "max_prepared_ingredients_per_dish": most,
        "preparation_complexity": Choices(complexity),
    }
    return Band(parameters, {"tool_cooldown_steps": cooldown, "shared_environment_max_steps": steps}, view)


BANDS: Mapping[Difficulty, Band] = {
    "easy": _band(
        dishes=Range(2, 2),
        ingredients=Range(3, 3),
        rooms=Range(5, 6),
        distractors=Range(3, 5),
        limits=NO,
        capacity=Range(2, 2),
        least=Range(1, 1),
        most=Range(1, 2),
        complexity=("low", "medium"),
        cooldown=Choices((0,)),
        steps=Range(115, 125),
    ),
    "medium": _band(
        dishes=Range(2, 4),
        ingredients=Range(3, 4),
        rooms=Range(7, 10),
        distractors=Range(6, 12),
        limits=YES,
        capacity=Range(1, 2),
        least=Range(2, 3),
        most=Range(3, 3),
        complexity=("medium", "high"),
        cooldown=EITHER,
        steps=Range(95, 100),
    ),
    "hard": _band(
        dishes=Range(4, 5),
        ingredients=Range(4, 4),
        rooms=Range(10, 11),
        distractors=Range(12, 18),
        limits=YES,
        capacity=Range(1, 1),
        least=Range(3, 3),
        most=Range(3, 3),
        complexity=("high",),
        cooldown=Choices((1,)),
        steps=Range(75, 90),
    ),
    "extreme": _band(
        dishes=Range(5, 5),
        ingredients=Range(4, 4),
        rooms=Range(10, 11),
        distractors=Range(16, 20),
        limits=YES,
        capacity=Range(1, 1),
        least=Range(3, 3),
        most=Range(3, 3),
        complexity=("high",),
        cooldown=Choices((1,)),
        steps=Range(65, 80),
        view="coarse",
    ),
}


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Seeds and published counts of a split; `totals` lists its difficulties in the order of their seeds.

    `food_fold` names the fold of the food table, `title` the split in manifests. A total of 0 is a difficulty that
    the published split leaves out and that is built on request only, at seeds of its own.
    """

    food_fold: str
    title: str
    first_seed: int
    difficulty_stride: int
    family_stride: int
    totals: Mapping[Difficulty, int]


SPLITS: Mapping[Split, SplitPlan] = {
    "train": SplitPlan(
        "train", "train", 850_000, 100_000, 200, {"medium": 900, "extreme": 450, "hard": 150, "easy": 0}
    ),
    "dev": SplitPlan("valid", "validation", 860_000, 100_000, 200, dict.fromkeys(DIFFICULTIES, 50)),
    "test": SplitPlan("test", "test", 820_000, 1_000, 100, dict.fromkeys(DIFFICULTIES, 350)),
}


class Cell(NamedTuple):
    """The tasks of one difficulty and family: offsets 0 to size - 1 have seeds from `seed` on."""

    difficulty: Difficulty
    family: Family
    seed: int
    size: int


def cells(
    split: Split,
    *,
    per_cell: int | None = None,
    difficulties: tuple[Difficulty, ...] | None = None,
    families: tuple[Family, ...] | None = None,
) -> list[Cell]:
    """Cells of a split in the published order: by difficulty, then by family.

    `per_cell` replaces the published counts, where the first families of a difficulty get one task more when 7 does
    not divide its total. Raises UsageError for a difficulty without published tasks when `per_cell` is not given,
    and for more tasks than a cell has seeds.
    """
    plan = SPLITS[split]
    if per_cell is not None and not 1 <= per_cell <= plan.family_stride:
        msg = f"tasks per cell of split {split} must be from 1 to {plan.family_stride}, got {per_cell}"
        raise UsageError(msg, hint="a cell is one difficulty and family; beyond this its seeds are those of the next")
    found = []
    for row, (difficulty, total) in enumerate(plan.totals.items()):
        if total == 0 if difficulties is None else difficulty not in difficulties:
            continue
        if total == 0 and per_cell is None:
            msg = f"the published split {split} has no {difficulty} tasks"
            raise UsageError(msg, hint="say how many to build of each family: --per-cell 20")
        for column, family in enumerate(FAMILIES):
            if families is None or family in families:
                seed = plan.first_seed + row * plan.difficulty_stride + column * plan.family_stride
                published = total // len(FAMILIES) + (column < total % len(FAMILIES))
                found.append(Cell(difficulty, family, seed, published if per_cell is None else per_cell))
    return found
