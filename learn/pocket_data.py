"""Warm-start data of the pocket policy: chats of scripted trees on many generated tasks, as token sequences.

Invariant: the sequences are exactly what the collector would render for these messages; block i depends only on i,
so that an interrupted build continues.

Run: ``sera pocket build --out DIR``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from collect.policies import open_policy
from collect.policy import Message, Policy, Renderer
from collect.services import TreePlan
from collect.transcript import Transcript
from collect.tree import run_tree
from learn.pocket_ground import Ground, Recipe
from schemas.words import Role

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


def teacher_chats(ground: Ground, block: int, recipe: Recipe) -> list[Transcript]:
    """All chats of one block of teacher trees."""
    teacher = open_policy(ground.teacher, options={**ground.options, **recipe.teacher})
    policies: dict[Role, Policy] = {"act": teacher, "writer": teacher, "scorer": teacher}
    plain, scored = (ground.services(policies, rubrics=rubrics, block=block) for rubrics in (False, True))

    async def play() -> list[Transcript]:
        chats: list[Transcript] = []
        for index, task in enumerate(ground.train_tasks(block, recipe.trees)):
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
