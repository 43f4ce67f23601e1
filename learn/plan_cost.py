"""What a plan costs: tokens by role x a price file, and hours of GPUs x a price per hour.

Invariant: a price is never guessed; a role whose model the price file does not name is listed as without price. Models
that run on the planned GPUs cost GPU hours, not tokens, unless the price file names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collect.config import CollectConfig
from learn.plan_use import Calls
from learn.planning import Epoch, summed
from learn.spread import Spread, total
from sera_data.prices import MILLION, Price, Prices

AWAY = ("openai",)
"""Engines whose models run on other machines."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a whole plan. tokens: by role; unpriced: roles without a price; hours: of all GPUs together."""

    currency: str
    tokens: dict[str, Spread]
    unpriced: tuple[str, ...]
    hours: Spread | None
    gpus: Spread | None

    @property
    def total(self) -> Spread | None:
        """Everything that has a price; None when nothing has."""
        parts = [*self.tokens.values(), *([self.gpus] if self.gpus is not None else [])]
        return total(parts) if parts else None


def models_of(config: CollectConfig, local: str) -> dict[str, str]:
    """Model that serves each role, as a price file names it; `local` for policies on the planned machines."""
    found: dict[str, str] = {role: served(config.policy.spec(role), local) for role in config.roles()}
    named = config.judge.spec if config.judge is not None else None
    if config.judge is not None or config.policy.roles.judge is not None:
        found["judge"] = served(named or config.policy.spec("judge"), local)
    return found


def served(spec: str, local: str) -> str:
    """'openai:MODEL@URL' -> 'MODEL'; anything else -> `local`."""
    engine, _, argument = spec.partition(":")
    return argument.partition("@")[0] if engine in AWAY else local


def away(config: CollectConfig) -> frozenset[str]:
    """Roles that other machines serve."""
    return frozenset(r for r in config.roles() if config.policy.spec(r).partition(":")[0] in AWAY)


def plan_cost(
    epochs: Sequence[Epoch],
    *,
    models: Mapping[str, str],
    prices: Prices | None,
    gpu_hour: Spread | None,
    world: int,
) -> Cost:
    """The cost of all epochs together."""
    tokens: dict[str, Spread] = {}
    unpriced = []
    for role, model in models.items():
        used = [epoch.roles[role] for epoch in epochs if role in epoch.roles]
        price = prices.of(model, role) if prices is not None else None
        if price is None:
            unpriced.append(role)
        elif used:
            tokens[role] = total([cost_of(calls, price) for calls in used])
    seconds = summed([epoch.collect_s for epoch in epochs] + [epoch.learn_s for epoch in epochs])
    hours = None if seconds is None else seconds * (world / 3600)
    gpus = None if hours is None or gpu_hour is None else hours * gpu_hour
    return Cost(prices.currency if prices is not None else "USD", tokens, tuple(unpriced), hours, gpus)


def cost_of(calls: Calls, price: Price) -> Spread:
    """Price of calls: fresh prompt tokens, cached ones and completions; cached tokens are those read and not fresh."""
    cached = calls.read.less(calls.fresh)
    return (calls.fresh * price.input + cached * price.cached + calls.written * price.output) * (1 / MILLION)
