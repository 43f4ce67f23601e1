"""What the coroutines of one tree share.

Invariant: nothing here depends on the order in which branches run, except the environments of the reference rule and
of best of N.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from collect.asking import InfrastructureFault, ask
from collect.budget import Deadline, EnvironmentBudget, ForkBudget, completion_cap
from collect.policy import Completion, Policy, Request, Sampling
from collect.prompts import Voice
from collect.rounds import Rounds
from collect.seeds import Seeds
from collect.services import Services, TreePlan
from collect.settings import TreeSettings
from collect.transcript import Transcript
from collect.world import Agent, World
from schemas.words import Role, Scheduling, Selector

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class TreeContext:
    """One tree in progress.

    forks: None = plain; otherwise the selection rule. rubrics: whether on-path delegations get a rubric.
    scheduling: how the launches of one reply run. rounds: the turns of parallel agents, None = as they come. selector:
    who chooses among the candidates of every delegation, None = there is one. in_order: candidates run one by one.
    """

    plan: TreePlan
    services: Services
    tree_id: str
    seeds: Seeds
    environments: EnvironmentBudget | ForkBudget
    tools: tuple[str, ...]
    forks: str | None
    rubrics: bool
    scheduling: Scheduling = "sequential"
    rounds: Rounds | None = None
    selector: Selector | None = None
    in_order: bool = False

    @property
    def world(self) -> World[Any]:
        """The world of the tree."""
        return self.services.world

    @property
    def settings(self) -> TreeSettings:
        """Budgets, sampling, delegation and rubric settings."""
        return self.services.settings

    @property
    def voice(self) -> Voice:
        """What prompt texts are chosen by."""
        return Voice(self.services.style, self.services.dialect.name, self.world.name, self.world.profile)

    def temperature_at(self, depth: int) -> float | None:
        """Temperature of an agent of that depth where candidates have one of their own; None = that of the role."""
        return self.settings.delegation.candidate_temperature if self.selector and depth > 0 else None

    def policy(self, role: Role) -> Policy:
        """The policy that serves a role."""
        return self.services.policies[role]

    def observed(self, state: Any, agent: Agent) -> str:
        """What a first message shows of the world to an agent that has entered it."""
        return in_world(lambda: self.world.observe(state, agent))

    async def complete(
        self,
        transcript: Transcript,
        *,
        seed: int,
        deadline: Deadline,
        facts: dict[str, Any],
        n_used: int = 0,
        temperature: float | None = None,
    ) -> tuple[Completion, Sampling] | None:
        """The next completion of a chat and how it was sampled, or None when no token fits any more.

        temperature: None = that of the role.
        """
        sampling = self.settings.sampling(transcript.role)
        heat = sampling.temperature if temperature is None else temperature
        cap = completion_cap(
            self.settings.budgets, max_tokens=sampling.max_tokens, n_prompt=transcript.n_prompt, n_used=n_used
        )
        if cap < 1:
            return None
        request = Request(
            role=transcript.role,
            session=transcript.session,
            messages=tuple(transcript.messages),
            prompt_ids=None if transcript.prompt is None else list(transcript.prompt),
            sampling=Sampling(temperature=heat, max_tokens=cap, seed=seed, top_p=sampling.top_p),
            facts=facts,
            group=self.plan.task.task_id,
        )
        completion = await ask(transcript.policy, request, budgets=self.settings.budgets, deadline=deadline)
        return completion, request.sampling


def in_world(call: Callable[[], T]) -> T:
    """Result of a world's function; any exception of it is an InfrastructureFault, never a failure of the agent."""
    try:
        return call()
    except Exception as error:
        msg = f"world: {type(error).__name__}: {error}"
        raise InfrastructureFault(msg) from error
