"""Warm-start data of the pocket policy: chats of scripted trees on many generated worlds, as token sequences.

Invariant: the sequences are exactly what the collector would render for these messages; worlds of training and of
the check never meet; block i depends only on (seed, i), so that an interrupted build continues.

Run: ``sera pocket build --out DIR``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from collect.policies import open_policy
from collect.policy import Message, Policy, Renderer
from collect.services import Services, TreePlan
from collect.settings import Budgets, DelegationSettings, RoleSampling, RubricSettings, TreeSettings
from collect.textcraft import TextCraft
from collect.textcraft_tasks import build_tasks
from collect.transcript import Transcript
from collect.tree import run_tree
from collect.world import Task
from schemas.words import Role

TRAIN_WORLDS = "1000-1499"
HELD_OUT_WORLDS = "5000-5099"
WORLD = {"items_per_tier": 8, "max_tier": 3}
BUDGETS = Budgets(turns=(14, 10, 8), depth=2)
Spoken = Literal["all", "last"]
ROLES = ("act", "writer", "scorer")
PROMPT, SPOKEN, SILENT = 0, 1, 2  # a silent token is context and no target at all


class Chat(Protocol):
    """Role and messages of a chat (see collect.transcript.Transcript)."""

    @property
    def role(self) -> Role:
        """Who speaks."""

    @property
    def messages(self) -> Sequence[Message]:
        """System, user, assistant, user, ..."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is generated.

    trees: scripted trees per block. warm, late: blocks for the first and the second course. rubric_share: trees with
    rubrics. practice: trees that the half-trained policy plays, to learn scoring from. teacher: its options.
    """

    trees: int = 1000
    warm: int = 18
    late: int = 6
    rubric_share: float = 0.4
    practice: int = 600
    teacher: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sequences:
    """Token sequences laid end to end; `parts` is PROMPT, SPOKEN or SILENT; `roles` indexes ROLES."""

    ids: np.ndarray
    parts: np.ndarray
    ends: np.ndarray
    roles: np.ndarray

    def __len__(self) -> int:
        return len(self.ends)

    def span(self, index: int) -> slice:
        """Where sequence `index` lies."""
        return slice(int(self.ends[index - 1]) if index else 0, int(self.ends[index]))

    def save(self, path: Path) -> None:
        """Write as one .npz in one rename."""
        temporary = path.with_suffix(".tmp.npz")
        np.savez(temporary, ids=self.ids, parts=self.parts, ends=self.ends, roles=self.roles)
        temporary.replace(path)

    @classmethod
    def load(cls, path: Path) -> Sequences:
        """Inverse of save."""
        with np.load(path) as data:
            return cls(**{name: data[name] for name in ("ids", "parts", "ends", "roles")})


def settings(*, rubrics: bool, k: int = 1) -> TreeSettings:
    """How the pocket's trees are run: budgets 14/10/8, depth 2, everything at temperature 1."""
    return TreeSettings(
        budgets=BUDGETS,
        act=RoleSampling(max_tokens=64),
        writer=RoleSampling(max_tokens=64),
        scorer=RoleSampling(max_tokens=32),
        delegation=DelegationSettings(mode="plain" if k == 1 else "counterfactual", k=k),
        rubric=RubricSettings(purposes=("execution", "rubric") if rubrics else ()),
    )


def train_tasks(block: int, count: int) -> list[Task]:
    """Tasks of one block, over all training worlds."""
    return build_tasks({"worlds": TRAIN_WORLDS, "n": count, "split": "train", "seed": block, **WORLD})


def teacher_chats(block: int, recipe: Recipe) -> list[Transcript]:
    """All chats of one block of teacher trees."""
    teacher = open_policy("scripted:teacher", options=dict(recipe.teacher))
    policies: dict[Role, Policy] = {"act": teacher, "writer": teacher, "scorer": teacher}
    plain, scored = (Services(TextCraft(), policies, settings(rubrics=r)) for r in (False, True))

    async def play() -> list[Transcript]:
        chats: list[Transcript] = []
        for index, task in enumerate(train_tasks(block, recipe.trees)):
            with_rubrics = (index % 100) < 100 * recipe.rubric_share
            plan = TreePlan(f"warm-{block}", 0, task, index, "execution", 1_000_003 * (block + 1))
            chats += (await run_tree(plan, scored if with_rubrics else plain)).transcripts
        return chats

    return asyncio.run(play())


def tokenised(chats: Iterable[Chat], renderer: Renderer, end_id: int, *, spoken: Spoken = "all") -> Sequences:
    """Chats as sequences; assistant messages and their end tokens are spoken.

    With spoken "last" only the last reply is; all before it is silent.
    """
    ids: list[int] = []
    parts: list[int] = []
    ends: list[int] = []
    roles: list[int] = []
    for chat in chats:
        pieces = _pieces(chat.messages, renderer, end_id)
        for index, (piece, own) in enumerate(pieces):
            kind = SPOKEN if own else PROMPT
            if spoken == "last":
                kind = SPOKEN if index == len(pieces) - 1 else SILENT
            ids += piece
            parts += [kind] * len(piece)
        ends.append(len(ids))
        roles.append(ROLES.index(chat.role))
    return Sequences(
        np.array(ids, np.int16), np.array(parts, np.int8), np.array(ends, np.int64), np.array(roles, np.int8)
    )


def _pieces(messages: Sequence[Message], renderer: Renderer, end_id: int) -> list[tuple[list[int], bool]]:
    first = next(i for i, m in enumerate(messages) if m.role == "assistant")
    pieces = [(renderer.open(messages[:first]), False)]
    for i in range(first, len(messages), 2):
        reply = [*renderer.encode(messages[i].content), end_id]  # type: ignore[attr-defined]
        pieces.append((reply, True))
        if i + 2 < len(messages):
            pieces.append((renderer.append(reply, "stop", messages[i + 1].content), False))
    return pieces
