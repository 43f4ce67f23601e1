"""What a tree of each purpose uses: agents, calls and tokens by role, and what its group gives to the learner.

Invariant: per tree and per collected group, so that a plan is a product with their numbers; every figure is a spread.
Stated ones come from `presets/trees.yaml` cut by the budgets of the configuration; measured ones from a store
(`learn.plan_store`) replace them purpose by purpose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import yaml

from collect.config import CollectConfig
from learn.spread import NOTHING, Spread
from schemas.words import Purpose
from sera_data.errors import UsageError

ROLES = ("act", "writer", "scorer", "judge")
BYTES_PER_TOKEN, BYTES_PER_TURN, BYTES_PER_EPOCH = Spread(4, 6, 9), Spread(40, 80, 160), Spread.of(150_000)
"""Stated bytes of a stored token (id, log-probability, text), of a turn's other columns, of an epoch's empty files."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one role: number, prompt tokens read, fresh ones (no cache had them), tokens written, tokens stored."""

    calls: Spread = NOTHING
    read: Spread = NOTHING
    fresh: Spread = NOTHING
    written: Spread = NOTHING
    stored: Spread = NOTHING

    def __add__(self, other: Calls) -> Calls:
        return Calls(
            self.calls + other.calls,
            self.read + other.read,
            self.fresh + other.fresh,
            self.written + other.written,
            self.stored + other.stored,
        )

    def __mul__(self, by: Spread | float) -> Calls:
        return Calls(self.calls * by, self.read * by, self.fresh * by, self.written * by, self.stored * by)


@dataclass(frozen=True, slots=True)
class TreeUse:
    """One tree with its branches: agents and calls by role."""

    agents: Spread
    roles: dict[str, Calls] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fodder:
    """What one tree of a stage gives the learner: tokens of its sequences, those of them that are trained."""

    tokens: Spread
    trained: Spread


def assumptions(world: str, changed: Mapping[str, Spread] | None = None) -> dict[str, Spread]:
    """Stated figures of a world, those of TextCraft where it has none; UsageError for an unknown name in `changed`."""
    text = files("learn").joinpath("presets", "trees.yaml").read_text(encoding="utf-8")
    tables: dict[str, dict[str, Any]] = yaml.safe_load(text)
    found = {name: Spread.of(value) for name, value in tables.get(world, tables["textcraft"]).items()}
    unknown = sorted(set(changed or {}) - set(found))
    if unknown:
        msg = f"no assumption {unknown[0]!r}; allowed: {', '.join(found)}"
        raise UsageError(msg, hint="for example --assume agents=4,8,16")
    return found | dict(changed or {})


def limited(stated: Mapping[str, Spread], config: CollectConfig) -> dict[str, Spread]:
    """The same within the budgets and the sampling limits of a configuration."""
    found, budgets, sampling = dict(stated), config.budgets, config.sampling
    turns = budgets.turns if isinstance(budgets.turns, int) else max(budgets.turns)
    found["turns"] = found["turns"].at_most(turns)
    for name, role in (("reply", sampling.act), ("rubric_reply", sampling.writer), ("score_reply", sampling.scorer)):
        found[name] = found[name].at_most(role.max_tokens)
    if budgets.agents_per_tree is not None:
        found["agents"] = found["agents"].at_most(budgets.agents_per_tree)
    if budgets.depth == 0:
        found["agents"] = found["agents"].at_most(1)
    return found


def stated_use(config: CollectConfig, purpose: Purpose, stated: Mapping[str, Spread]) -> TreeUse:
    """A tree of a purpose as assumed."""
    a = limited(stated, config)
    one = Spread.of(1.0)
    forks = _forks(config, purpose) if a["agents"].expected > 1 else 0.0
    branches = forks * (config.delegation.k - 1)
    agents = a["agents"] + a["fork_agents"] * branches
    launches = a["agents"].less(one)
    roles = {"act": _agent_calls(a, config) * agents}
    if purpose in config.rubric.purposes:
        roles["writer"] = _flat(launches, a["rubric_prompt"], a["rubric_reply"])
        roles["scorer"] = _flat(launches + one * branches, a["score_prompt"], a["score_reply"])
    if _judged(config, purpose):
        roles["judge"] = _flat(agents, a["judge_prompt"], a["judge_reply"], stored=False)
    return TreeUse(agents, roles)


def stated_fodder(config: CollectConfig, stage: Purpose, stated: Mapping[str, Spread]) -> Fodder:
    """What a tree gives in its stage as assumed: all agents, delegating ones up to the launch, or forked rubrics."""
    a = limited(stated, config)
    length, replies = _length(a, config), a["turns"] * a["reply"]
    if stage == "execution":
        return Fodder(a["agents"] * length, a["agents"] * replies)
    if stage == "delegation":
        return Fodder(a["agents"] * a["launching"] * length * 0.5, a["agents"] * a["launching"] * a["reply"])
    forks = _forks(config, stage)
    return Fodder((a["rubric_prompt"] + a["rubric_reply"]) * forks, a["rubric_reply"] * forks)


def _judged(config: CollectConfig, purpose: Purpose) -> bool:
    """Whether trees of a purpose are judged by a model."""
    if config.judge is None:
        return config.policy.roles.judge is not None
    return purpose in config.judge.purposes


def _forks(config: CollectConfig, purpose: Purpose) -> float:
    """Forked delegations of a tree; `reference` forks while fewer environments exist than its cap."""
    delegation = config.delegation
    if delegation.mode != "counterfactual":
        return 0.0
    most = delegation.forks_per_tree
    if delegation.selection == "reference":
        most = max(1, round(delegation.environment_cap / max(1, delegation.k - 1)))
    return float(most) if purpose == "rubric" else most * delegation.fork_share


def _length(a: Mapping[str, Spread], config: CollectConfig) -> Spread:
    """Tokens of an agent's whole conversation."""
    length = a["prompt"] + a["turns"] * (a["reply"] + a["observation"])
    return length if config.budgets.context is None else length.at_most(config.budgets.context)


def _agent_calls(a: Mapping[str, Spread], config: CollectConfig) -> Calls:
    """An agent's turns: each reads the conversation so far, of which only the newest part is stored again."""
    middle = a["prompt"] + a["turns"].less(Spread.of(1.0)) * 0.5 * (a["reply"] + a["observation"])
    if config.budgets.context is not None:
        middle = middle.at_most(config.budgets.context)
    read, written = a["turns"] * middle, a["turns"] * a["reply"]
    kept = a["prompt"] + a["turns"] * a["observation"]
    return Calls(a["turns"], read, read * a["fresh"], written, kept + written)


def _flat(calls: Spread, prompt: Spread, reply: Spread, *, stored: bool = True) -> Calls:
    read, written = calls * prompt, calls * reply
    return Calls(calls, read, read, written, read + written if stored else NOTHING)
