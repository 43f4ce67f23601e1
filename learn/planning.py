"""A plan: groups, trees, calls, tokens, bytes, seconds and money of every epoch of a loop, before anything runs.

Invariant: a pure function of the configuration, the shape of the model, the machine, and figures per tree and per
second; each figure says whether it was measured in a store, given, or stated. Seconds are those between the first and
the last work of a phase; engines that start are counted where speeds are stated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from learn.config import LoopConfig
from learn.model_shape import ModelShape
from learn.plan_memory import Machine, Training, serving_memory, train_part
from learn.plan_speed import Accelerator, decode_speed, prefill_speed, train_speed
from learn.plan_store import Measured
from learn.plan_use import (
    BYTES_PER_EPOCH,
    BYTES_PER_TOKEN,
    BYTES_PER_TURN,
    Calls,
    Fodder,
    TreeUse,
    stated_fodder,
    stated_use,
)
from learn.schedule import Schedule
from learn.spread import NOTHING, Spread, total
from schemas.words import Stage

ENGINE_START = Spread(30, 60, 180)
"""Seconds in which a serving engine or a learner on GPUs loads its weights; stated."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a plan is made from. speeds: tokens per second and GPU that the user gave, by phase; away: roles that other
    machines serve, whose tokens cost no time here."""

    config: LoopConfig
    schedule: Schedule
    shape: ModelShape
    machine: Machine
    training: Training
    stated: Mapping[str, Spread]
    measured: Measured = field(default_factory=Measured)
    device: Accelerator | None = None
    speeds: Mapping[str, Spread] = field(default_factory=dict)
    away: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch. groups: collected per purpose; fodder: tokens per stage that the learner reads; seconds None where no
    speed is known."""

    index: int
    version: int
    updates: int
    groups: dict[Stage, int]
    trees: int
    agents: Spread
    roles: dict[str, Calls]
    fodder: dict[Stage, Fodder]
    store_bytes: Spread
    collect_s: Spread | None
    learn_s: Spread | None

    @property
    def read(self) -> Spread:
        """Prompt tokens read by all roles."""
        return total([calls.read for calls in self.roles.values()])

    @property
    def written(self) -> Spread:
        """Completion tokens of all roles."""
        return total([calls.written for calls in self.roles.values()])

    @property
    def calls(self) -> Spread:
        """Model calls of all roles."""
        return total([calls.calls for calls in self.roles.values()])

    @property
    def learned(self) -> Spread:
        """Tokens of the sequences that the learner computes."""
        return total([part.tokens for part in self.fodder.values()])


def plan_epochs(terms: Terms) -> list[Epoch]:
    """Every epoch of the loop; each update is taken to succeed."""
    config, learn = terms.config, terms.config.learn
    last = config.epochs - (0 if config.learn_last else 1)
    epochs, version = [], 0
    for index in range(config.epochs):
        updates = learn.updates_per_collect if index < last else 0
        epochs.append(_epoch(terms, index, version, updates))
        version += updates
    return epochs


def _epoch(terms: Terms, index: int, version: int, updates: int) -> Epoch:
    config = terms.config
    dealt = terms.schedule.deal(version, config.learn.updates_per_collect, config.learn.groups_per_update)
    groups = {stage: math.ceil(n * config.margin) for stage, n in dealt.items()}
    samples = config.collect.samples
    agents, roles = NOTHING, dict[str, Calls]()
    for stage, n in groups.items():
        use = use_of(terms, stage)
        agents = agents + use.agents * (n * samples)
        for role, calls in use.roles.items():
            roles[role] = roles.get(role, Calls()) + calls * (n * samples)
    fodder = {}
    if updates:
        for stage, n in groups.items():
            part = fodder_of(terms, stage)
            fodder[stage] = Fodder(part.tokens * (n * samples), part.trained * (n * samples))
    trees = sum(groups.values()) * samples
    return Epoch(
        index=index,
        version=version,
        updates=updates,
        groups=groups,
        trees=trees,
        agents=agents,
        roles=roles,
        fodder=fodder,
        store_bytes=store_bytes(terms, roles),
        collect_s=collect_seconds(terms, roles, trees),
        learn_s=learn_seconds(terms, fodder, updates) if updates else NOTHING,
    )


def use_of(terms: Terms, stage: Stage) -> TreeUse:
    """Use of a tree: measured where the store has trees of that purpose, else stated."""
    return terms.measured.use.get(stage) or stated_use(terms.config.collect, stage, terms.stated)


def fodder_of(terms: Terms, stage: Stage) -> Fodder:
    """Fodder of a tree: measured where the store has updates of that stage, else stated."""
    return terms.measured.fodder.get(stage) or stated_fodder(terms.config.collect, stage, terms.stated)


def store_bytes(terms: Terms, roles: Mapping[str, Calls]) -> Spread:
    """Bytes of a sealed epoch with its updates; calls of a judge are labels, no turns."""
    turns = total([calls.calls for role, calls in roles.items() if role != "judge"])
    measured = terms.measured
    if measured.turn_bytes is not None and measured.epoch_bytes is not None:
        return turns * measured.turn_bytes + measured.epoch_bytes
    stored = total([calls.stored for calls in roles.values()])
    return stored * BYTES_PER_TOKEN + turns * BYTES_PER_TURN + BYTES_PER_EPOCH


def collect_seconds(terms: Terms, roles: Mapping[str, Calls], trees: int) -> Spread | None:
    """Seconds of a collect phase on all GPUs; only roles that are served here take time."""
    here = [calls for role, calls in roles.items() if role != "judge" and role not in terms.away]
    written, fresh = total([c.written for c in here]), total([c.fresh for c in here])
    world = terms.machine.world
    if "collect" in terms.speeds:
        return written.at_speed(terms.speeds["collect"] * world)
    speed = terms.measured.collect
    if speed is not None:
        return written.at_speed(speed.tokens * world) + speed.edge
    if terms.device is None:
        return None
    context = _context(here)
    room = serving_memory(terms.shape, terms.machine.memory, context=context)
    flight = min(terms.config.collect.concurrency, trees) / world
    sequences = min(room.sequences, max(1.0, flight))
    if sequences < 1:
        return None
    decode = decode_speed(terms.shape, terms.device, sequences=sequences, context=context)
    prefill = prefill_speed(terms.shape, terms.device, context=context)
    return written.at_speed(decode * world) + fresh.at_speed(prefill * world) + ENGINE_START


def _context(calls: list[Calls]) -> float:
    """Mean prompt of a call."""
    n = sum(c.calls.expected for c in calls)
    return max(1.0, sum(c.read.expected for c in calls) / n) if n else 1.0


def learn_seconds(terms: Terms, fodder: Mapping[Stage, Fodder], updates: int) -> Spread | None:
    """Seconds of a learn phase on all GPUs."""
    tokens = total([part.tokens for part in fodder.values()])
    world = terms.machine.world
    if "learn" in terms.speeds:
        return tokens.at_speed(terms.speeds["learn"] * world)
    speed = terms.measured.learn
    if speed is not None:
        busy = tokens.at_speed(speed.tokens * (world / speed.devices))
        return busy + speed.per_update * updates + speed.per_phase
    if terms.device is None:
        return None
    stated = terms.stated
    length = (stated["prompt"] + stated["turns"] * (stated["reply"] + stated["observation"])).expected
    trained = total([part.trained for part in fodder.values()]).expected / max(tokens.expected, 1.0)
    how, shape = terms.training, terms.shape
    rate = train_speed(
        shape, terms.device, length=length, trained=trained, recompute=how.recompute, share=train_part(shape, how)
    )
    return tokens.at_speed(rate * world) + ENGINE_START


def summed(parts: list[Spread | None]) -> Spread | None:
    """Sum, None when a part is unknown."""
    known = [part for part in parts if part is not None]
    return total(known) if len(known) == len(parts) else None


def sources(terms: Terms) -> dict[str, str]:
    """Where each kind of figure comes from: measured, given or stated."""
    measured, speeds = terms.measured, terms.speeds
    stages = [stage for stage, _ in terms.schedule.items]
    used = [stage for stage in stages if stage in measured.use]
    fed = [stage for stage in stages if stage in measured.fodder]

    def word(part: str, known: object) -> str:
        if part in speeds:
            return "given"
        if known is not None:
            return "measured"
        return "unknown" if terms.device is None else f"stated: limits of {terms.device.name} x shares"

    return {
        "use of trees": _mixed(used, stages),
        "tokens trained": _mixed(fed, stages),
        "store bytes": "stated" if measured.turn_bytes is None else "measured",
        "collect speed": word("collect", measured.collect),
        "learn speed": word("learn", measured.learn),
    }


def _mixed(measured: list[Stage], stages: list[Stage]) -> str:
    if not measured:
        return "stated"
    return "measured" if len(measured) == len(stages) else f"measured for {', '.join(measured)}; stated for the rest"
