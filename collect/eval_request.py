"""What the user asked of `sera eval`, turned into evaluations: under a protocol file, or plainly from a config.

Invariant: an option that a protocol fixes may be overridden, and the change is part of the stored identity; a dialect
that a protocol does not allow is refused before anything is played.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collect.config import CollectConfig
from collect.eval_plan import EvalRequest
from collect.evaluation import eval_phase
from collect.policies import split_spec, with_model
from collect.protocol import Protocol, is_protocol, read_protocol, split_overrides
from collect.protocol_tasks import protocol_tasks
from collect.tasks import load_tasks
from schemas.words import SELECTORS
from sera_data.config import load_config
from sera_data.errors import UsageError

SAMPLES, TEMPERATURE = 4, 1.0
"""Of an evaluation without a protocol file."""
CANDIDATES = 2
"""Of `--select` without `--n`, as published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Options of the command; None = not given."""

    protocol: str | None = None
    policy: str | None = None
    tasks: Path | None = None
    samples: int | None = None
    temperature: float | None = None
    limit: int | None = None
    dialect: str | None = None
    seeds: tuple[int, ...] = ()
    select: str | None = None
    n: int | None = None
    config: Path | None = None
    overrides: tuple[str, ...] = ()


def requests(asked: Asked) -> list[EvalRequest]:
    """One evaluation per seed."""
    if asked.protocol is not None and is_protocol(asked.protocol):
        return _under_protocol(asked)
    return _plain(asked)


def selecting(asked: Asked) -> list[str]:
    """Overrides of the collect phase for `--select` and `--n`: candidates one delegation after another, as published.

    The writer is greedy with 1,024 tokens and the scorer greedy with 512, unless settings say otherwise.
    """
    if asked.select is None:
        if asked.n is not None:
            msg = f"--n {asked.n} says how many candidates a selector has, but there is none"
            raise UsageError(msg, hint=f"--select {'|'.join(SELECTORS)}")
        return []
    if asked.select not in SELECTORS:
        msg = f"--select {asked.select!r} is no selector; allowed: {', '.join(SELECTORS)}"
        raise UsageError(msg)
    return [
        "groups={eval: all}",
        "delegation.mode=best_of",
        f"delegation.selector={asked.select}",
        f"delegation.k={CANDIDATES if asked.n is None else asked.n}",
        "delegation.scheduling=sequential",
        "sampling.writer.temperature=0",
        "sampling.writer.max_tokens=1024",
        "sampling.scorer.temperature=0",
        "sampling.scorer.max_tokens=512",
    ]


def _under_protocol(asked: Asked) -> list[EvalRequest]:
    if asked.config is not None:
        msg = "--config and a protocol file exclude each other: the protocol says how tasks are played"
        raise UsageError(msg, hint="--set collect.a.b=value changes a collect setting of the protocol")
    ours, operations = split_overrides(asked.overrides)
    given = {"samples": asked.samples, "temperature": asked.temperature}
    ours += [f"{key}={value}" for key, value in given.items() if value is not None]
    assert asked.protocol is not None
    protocol = read_protocol(asked.protocol, ours)
    dialect = _dialect(protocol, asked.dialect)
    chosen = protocol_tasks(protocol, asked.tasks)
    operations = [*selecting(asked), *operations]
    operations += [f"groups={{eval: {asked.limit}}}"] if asked.limit else []
    found = []
    for seed in asked.seeds or protocol.seeds:
        phase = protocol.phase(seed=seed, dialect=dialect, operations=operations)
        policy = with_model(phase.policy, asked.policy)
        split_spec(policy.spec("act"))
        found.append(EvalRequest(phase, policy, chosen.tasks, protocol=protocol.name, chosen=chosen))
    return found


def _dialect(protocol: Protocol, asked: str | None) -> str:
    allowed: Sequence[str] = protocol.dialects
    if asked is None:
        return allowed[0]
    if asked not in allowed:
        msg = f"protocol {protocol.name} is played in {', '.join(allowed)}, got --dialect {asked}"
        raise UsageError(msg)
    return asked


def _plain(asked: Asked) -> list[EvalRequest]:
    extra = [f"world.tasks={json.dumps(str(asked.tasks))}"] if asked.tasks else []
    extra += [f"dialect={asked.dialect}"] if asked.dialect else []
    found = []
    tasks = None
    for seed in asked.seeds or (None,):
        own = [] if seed is None else [f"seed={seed}"]
        base = load_config(CollectConfig, asked.config, [*selecting(asked), *asked.overrides, *extra, *own])
        phase = eval_phase(
            base,
            n_tasks=asked.limit or "all",
            samples=asked.samples or SAMPLES,
            temperature=TEMPERATURE if asked.temperature is None else asked.temperature,
        )
        policy = with_model(phase.policy, asked.policy)
        split_spec(policy.spec("act"))
        tasks = tasks or load_tasks(phase)
        found.append(EvalRequest(phase, policy, tasks, protocol=asked.protocol))
    return found
