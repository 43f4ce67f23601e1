"""Policies and judges whose calls are priced and counted as they are made.

Invariant: what is asked and answered is what it would be without the meter; every completion and every opinion carries
the price of its call, and no call is made beyond the limits of the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from collect.labels import InlineJudge, Labeller, Opinion
from collect.policy import Completion, Identity, Policy, Renderer, Request
from collect.spending import Amount, Limits, Spending
from collect.subject import Subject
from collect.world import World
from schemas.words import LabelKind, Role
from sera_data.errors import ConfigError, SeraError
from sera_data.prices import Price

HOSTED = ("openai", "judge")
"""Engines whose calls somebody has to pay; all others run on the user's own machines, free unless a price says else."""


FREE = Price(0.0, 0.0, 0.0)


class UncountedCall(SeraError):
    """A server that does not say how many tokens a call used, so that a limit in money cannot be kept."""


class MeteredPolicy:
    """A policy and its meter (see collect.policy.Policy)."""

    def __init__(self, policy: Policy, spending: Spending) -> None:
        self.identity: Identity = policy.identity
        self.renderer: Renderer | None = policy.renderer
        self.trainable = policy.trainable
        self.inner = policy
        self._spending = spending

    async def complete(self, request: Request) -> Completion:
        """The policy's answer with its price; raises LimitReached when nothing more may be spent."""
        price = self._spending.limits.price(self.identity.name, request.role)
        if price is not None and price != FREE:
            self._spending.require_room()
        got = await self.inner.complete(request)
        ids = got.completion_ids
        prompt = got.n_prompt if request.prompt_ids is None else len(request.prompt_ids)
        completion = got.n_completion if ids is None else len(ids)
        cost = _cost(self._spending, self.identity.name, price, prompt, got.n_cached, completion)
        return replace(got, cost=cost)

    def release(self, session: str) -> None:
        """The session will not be continued."""
        self.inner.release(session)

    async def close(self) -> None:
        """Close the policy."""
        await self.inner.close()


class MeteredLabeller:
    """A judge and its meter (see collect.labels.Labeller)."""

    def __init__(self, labeller: Labeller, spending: Spending) -> None:
        self.kind: LabelKind = labeller.kind
        self.concurrency = labeller.concurrency
        self.inner = labeller
        self.engine = getattr(labeller, "engine", None)
        self._spending = spending

    def signature(self, world: World[Any]) -> tuple[str, str]:
        """Source and version of its labels."""
        return self.inner.signature(world)

    async def label(self, subject: Subject, *, attempt: int) -> Opinion:
        """The judge's opinion with its price; raises LimitReached when no vote more may be given."""
        self._spending.require_room()
        self._spending.charge(Amount(labels=int(self.kind == "judge")))  # before it is given: others are under way
        opinion = await self.inner.label(subject, attempt=attempt)
        name = getattr(self.engine, "name", "")
        price = self._spending.limits.price(name, "judge")
        tokens = (opinion.prompt_tokens, opinion.cached_tokens, opinion.completion_tokens)
        if opinion.error is not None and None in (tokens[0], tokens[2]):  # no answer came, so nothing was counted
            return opinion
        return replace(opinion, cost=_cost(self._spending, name, price, *tokens))

    async def close(self) -> None:
        """Close the judge."""
        await self.inner.close()


def metered(policies: Mapping[Role, Policy], spending: Spending) -> dict[Role, Policy]:
    """The policies by role, those that are one still one."""
    by_id = {id(policy): MeteredPolicy(policy, spending) for policy in policies.values()}
    return {role: by_id[id(policy)] for role, policy in policies.items()}


def metered_judge(judge: InlineJudge | None, spending: Spending) -> InlineJudge | None:
    """The judge of a phase under the meter."""
    return None if judge is None else InlineJudge(MeteredLabeller(judge.labeller, spending), judge.config)


def require_prices(limits: Limits, served: Mapping[tuple[str, str], str]) -> None:
    """Refuse a limit in money under which a hosted model has no price. served: engine by (role, model)."""
    if limits.max_cost is None:
        return
    for (role, model), engine in served.items():
        if engine in HOSTED and limits.price(model, role) is None:
            msg = f"--max-cost needs the price of {model!r} as {role}, and the price file has none"
            raise ConfigError(
                msg, hint="--prices FILE with models: {NAME: {input: 0.10, output: 0.40}} per million tokens"
            )


def _cost(
    spending: Spending, model: str, price: Price | None, prompt: int | None, cached: int | None, completion: int | None
) -> float | None:
    """Price of one call, which is charged; None without a price or without token counts."""
    if price is None:
        return None
    if prompt is None or completion is None:
        if spending.limits.max_cost is not None and price != FREE:
            msg = f"{model!r} does not say how many tokens a call used, so --max-cost cannot be kept"
            raise UncountedCall(msg, hint="leave --max-cost out, or serve the model with usage in its replies")
        return None
    cost = price.cost(prompt=prompt, cached=cached, completion=completion)
    spending.charge(Amount(cost=cost))
    return cost
