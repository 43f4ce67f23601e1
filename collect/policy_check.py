"""Does the engine that samples agree with the forward pass that trains? Played trees, compared token by token.

Invariant: the tokens compared are those of real trees, prefix cache included, and the other side is the learner's own
network (entry-point group `sera.forwards`); nothing is stored. A difference d = trainer - engine of one token's
log-probability is a ratio exp(d) before any training, so what is above the bound here is noise in every update.

Run: ``sera policy check DIR --engine vllm``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collect.config import CollectConfig
from collect.dialect import dialect_for
from collect.policy import Policy
from collect.services import Services, Style, TreePlan, TreeResult
from collect.tasks import load_tasks
from collect.tree import run_tree
from collect.worlds import open_world
from sera_data.config import load_config
from sera_data.errors import SeraError, UsageError

GROUP = "sera.forwards"
RATIO_MAX = 5.0
DEFAULTS = (
    "name=check",
    "world.profile=strict",
    "world.tasks={worlds: 1000-1063, max_tier: 3, n: 64, tier_mix: {2: 0.6, 3: 0.4}}",
    "groups={eval: all}",
    "samples=1",
    "budgets={turns: 8, depth: 1, context: 1024}",
    "sampling.act={temperature: 1.0, max_tokens: 64}",
)
"""What is played where no config is named: short TextCraft trees that a pocket policy's context holds."""


class CheckError(SeraError):
    """The check could not compare anything."""


@dataclass(frozen=True, slots=True)
class Report:
    """Figures over all sampled tokens of act turns, in nats; the ratio is exp(trainer - engine).

    clip_share: share of tokens whose ratio is outside [0, 5], where CISPO cuts it. kl: mean of ratio - 1 - log ratio.
    """

    tokens: int
    trees: int
    mismatch_mean: float
    mismatch_max: float
    ratio_mean: float
    ratio_min: float
    ratio_max: float
    clip_share: float
    kl: float

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def read_config(path: Path | None, overrides: Sequence[str]) -> CollectConfig:
    """The collect config whose trees are played; DEFAULTS without a file."""
    return load_config(CollectConfig, path, [*(() if path else DEFAULTS), *overrides])


def check(
    policy: Policy, directory: Path, *, config: CollectConfig, style: Style, trees: int, dtype: str, device: str
) -> Report:
    """Play `trees` trees with the policy, close it, and compare its log-probabilities with the trainer's."""
    played = asyncio.run(_play(policy, config, style=style, trees=trees))
    sequences, engine = chains([row for tree in played for row in tree.rows["turns"]])
    if not sequences:
        faults = {tree.root.error for tree in played if tree.root.error}
        msg = (
            f"{len(played)} trees have no trainable turn to compare{': ' if faults else ''}{'; '.join(sorted(faults))}"
        )
        raise CheckError(msg, hint="the policy must return token ids and sample at temperature above 0 with top_p 1")
    temperature = config.sampling.act.temperature
    trainer = _forward()(directory, sequences, temperature=temperature, dtype=dtype, device=device)
    return compare(np.concatenate(engine), np.concatenate(trainer), trees=len(played))


def compare(engine: NDArray[Any], trainer: NDArray[Any], *, trees: int) -> Report:
    """Figures of two arrays of log-probabilities of the same tokens."""
    gap = trainer.astype(np.float64) - engine.astype(np.float64)
    ratio = np.exp(gap)
    return Report(
        tokens=len(gap),
        trees=trees,
        mismatch_mean=float(np.abs(gap).mean()),
        mismatch_max=float(np.abs(gap).max()),
        ratio_mean=float(ratio.mean()),
        ratio_min=float(ratio.min()),
        ratio_max=float(ratio.max()),
        clip_share=float((ratio > RATIO_MAX).mean()),
        kl=float((ratio - 1 - gap).mean()),
    )


def chains(rows: Sequence[Mapping[str, Any]]) -> tuple[list[tuple[list[int], list[int]]], list[NDArray[np.float64]]]:
    """Trainable act turns as sequences: (token ids, positions of completion tokens), and the engine's logprobs there.

    A turn that extends another goes on with its sequence (the token rule); a keyframe starts one.
    """
    whole: dict[str, tuple[list[int], list[int], list[float]]] = {}
    found: list[tuple[list[int], list[int], list[float]]] = []
    for row in rows:
        if row["kind"] != "act" or not row["trainable"] or not row["completion_ids"]:
            continue
        if row["base_turn"] in whole:
            ids, positions, logprobs = whole[row["base_turn"]]
        else:
            ids, positions, logprobs = [], [], []
            found.append((ids, positions, logprobs))
        ids += row["prompt_ids"]
        positions += range(len(ids), len(ids) + len(row["completion_ids"]))
        ids += row["completion_ids"]
        logprobs += row["logprobs"]
        whole[row["turn_id"]] = ids, positions, logprobs
    return [(ids, positions) for ids, positions, _ in found], [np.asarray(values) for *_, values in found]


async def _play(policy: Policy, config: CollectConfig, *, style: Style, trees: int) -> list[TreeResult]:
    world = open_world(config.world.name, profile=config.world.profile)
    services = Services(
        world=world,
        policies={"act": policy},
        settings=config.tree_settings(),
        style=style,
        dialect=dialect_for(world, config.dialect),
    )
    tasks = load_tasks(config)
    if not tasks:
        msg = "the config has no tasks to play"
        raise UsageError(msg, hint="name tasks under world.tasks")
    plans = [TreePlan("check", 0, tasks[i % len(tasks)], i // len(tasks), "eval", config.seed) for i in range(trees)]
    try:
        return list(await asyncio.gather(*(run_tree(plan, services) for plan in plans)))
    finally:
        await policy.close()


def _forward() -> Any:
    found = list(entry_points(group=GROUP, name="learner"))
    if not found:
        msg = "no trainer's forward pass is registered"
        raise UsageError(msg, hint="install sera-data with the extra learn")
    return found[0].load()
