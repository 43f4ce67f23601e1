"""Practice: the half-trained policy plays, the scripted teacher shows what it should have said.

Invariant: the policy's own replies are context only, never targets; what is learned is the teacher's call in the
situations that the policy gets itself into (after an error always, otherwise now and then), and the teacher's rubrics
and scores of the policy's episodes. Without it the policy has never seen its own mistakes and answers them at random.

Run: ``sera pocket build --out DIR``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from collect.policies import open_policy
from collect.policy import Completion, Identity, Message, Policy, Renderer, Request
from collect.services import TreePlan
from collect.tree import run_tree
from learn.pocket_ground import Ground, Recipe
from schemas.words import Role
from sera_data.canonical import derive_seed

CALM_SHARE = 8  # of turns without trouble every eighth is kept


@dataclass(frozen=True, slots=True)
class Lesson:
    """A chat of which only the last reply is a target."""

    role: Role
    messages: Sequence[Message]


class CoachedPolicy:
    """Acts as the pupil does and keeps the coach's reply to the same situation as a lesson."""

    trainable = False

    def __init__(self, pupil: Policy, coach: Policy, trouble: tuple[str, ...]) -> None:
        self.identity: Identity = pupil.identity
        self.renderer: Renderer | None = pupil.renderer
        self.lessons: list[Lesson] = []
        self._pupil, self._coach, self._trouble = pupil, coach, trouble

    async def complete(self, request: Request) -> Completion:
        """The pupil's reply."""
        shown = await self._coach.complete(request)
        trouble = len(request.messages) > 2 and request.messages[-1].content.startswith(self._trouble)
        if trouble or derive_seed("calm", request.sampling.seed) % CALM_SHARE == 0:
            messages = [*request.messages, Message("assistant", shown.text)]
            self.lessons.append(Lesson(request.role, messages))
        return await self._pupil.complete(request)

    def release(self, session: str) -> None:
        """Let both forget the session."""
        self._pupil.release(session)
        self._coach.release(session)

    async def close(self) -> None:
        """Nothing of its own to free."""


def practise(ground: Ground, policy: Policy, *, recipe: Recipe, seed: int) -> list[Lesson]:
    """Lessons from trees of the policy with eight branches a delegation: calls, rubrics and scores."""
    acting = CoachedPolicy(policy, open_policy(ground.teacher, options=dict(ground.coach)), ground.trouble)
    teacher = open_policy(ground.teacher, options=dict(ground.practice))
    policies: dict[Role, Policy] = {"act": acting, "writer": teacher, "scorer": teacher}
    services = ground.services(policies, rubrics=True, k=8)
    tasks = ground.train_tasks(seed, recipe.practice)
    room = asyncio.Semaphore(64)

    async def play(index: int) -> list[Lesson]:
        async with room:
            plan = TreePlan(f"practice-{seed}", 0, tasks[index], 0, "rubric", seed)
            chats = (await run_tree(plan, services)).transcripts
        return [Lesson(chat.role, chat.messages) for chat in chats if chat.role != "act"]

    async def play_all() -> list[list[Lesson]]:
        return await asyncio.gather(*(play(index) for index in range(recipe.practice)))

    return [*(lesson for found in asyncio.run(play_all()) for lesson in found), *acting.lessons]
