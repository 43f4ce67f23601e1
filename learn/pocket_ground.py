"""Where a pocket policy grows up: one world with its tasks, budgets and teacher, and the words that are one token.

Invariant: tasks of training and of the check never meet. One row of `GROUNDS` per world; everything else of the build
and of the check is the same for all of them.

Run: ``sera pocket build --world NAME --out DIR``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from collect.dialect import dialect_for
from collect.policy import Policy
from collect.services import Services
from collect.settings import TreeSettings
from collect.world import Task, World
from schemas.words import Role
from sera_data.errors import UsageError

GROUNDS = ("textcraft", "textworld")


class Settings(Protocol):
    """How trees are run."""

    def __call__(self, *, rubrics: bool, k: int = 1, block: int = 0) -> TreeSettings:
        """Settings with rubrics for delegations or without, and k branches of some of them; budgets may go by block."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is generated.

    trees: scripted trees per block. warm, late: blocks for the first and the second course. rubric_share: trees with
    rubrics. practice: trees that the half-trained policy plays, to learn scoring from. teacher: options of the
    teacher, over those of the ground. temperature: the one at which the trained weights are to be sampled; it goes into
    the weights that are written, so that what plays at 1 is what they were at this one.
    """

    trees: int = 1000
    warm: int = 18
    late: int = 6
    rubric_share: float = 0.4
    practice: int = 600
    teacher: Mapping[str, Any] = field(default_factory=dict)
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class Ground:
    """One world for a pocket policy.

    train_tasks: (block, count) -> tasks. held_out_tasks: (seed, count) -> tasks. teacher: scripted policy that shows
    all roles, with its options. practice: its options when it writes and scores for the half-trained policy. coach: its
    options when it corrects that policy. trouble: how an answer starts after which it most often does. recipe: how much
    is generated. words: texts that are one token. piece: what stands between phrases. context: longest sequence.
    batch_tokens: size of a training batch. shipped: the directory of the policy that ships.
    """

    name: str
    world: Callable[[], World[Any]]
    train_tasks: Callable[[int, int], list[Task]]
    held_out_tasks: Callable[[int, int], list[Task]]
    settings: Settings
    teacher: str
    options: Mapping[str, Any]
    practice: Mapping[str, Any]
    coach: Mapping[str, Any]
    trouble: tuple[str, ...]
    recipe: Recipe
    words: Sequence[str]
    piece: re.Pattern[str]
    context: int
    batch_tokens: int
    shipped: Path

    def services(self, policies: Mapping[Role, Policy], *, rubrics: bool, k: int = 1, block: int = 0) -> Services:
        """What its trees are run with."""
        world = self.world()
        settings = self.settings(rubrics=rubrics, k=k, block=block)
        return Services(world, policies, settings, dialect=dialect_for(world, "auto"))


def ground(name: str) -> Ground:
    """The ground of a world's name."""
    if name not in GROUNDS:
        msg = f"no pocket policy for world {name!r}; allowed: {', '.join(GROUNDS)}"
        raise UsageError(msg)
    found: Ground = import_module(f"learn.pocket_{name}").GROUND
    return found
