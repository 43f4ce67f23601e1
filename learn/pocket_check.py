"""Every required figure of the pocket policy, measured on tasks it was never trained on, at temperature 1.

Invariant: the figures are counted from the same rows that a store would hold; the trees fork their delegations over
eight branches by the `recommended` selection, so the roots are plain samples.

Run: ``sera pocket check`` or ``sera pocket check --policy DIR --json``.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from collect.policy import Policy
from collect.services import TreePlan, TreeResult
from collect.tree import run_tree
from learn.pocket_ground import Ground
from schemas.words import Role

BRANCHES = 8


class Requirement(NamedTuple):
    """What is measured and the closed range it must lie in."""

    name: str
    low: float
    high: float


REQUIREMENTS = (
    Requirement("valid actions", 0.95, 1.0),
    Requirement("valid rubrics", 0.95, 1.0),
    Requirement("valid scores", 0.95, 1.0),
    Requirement("tasks won", 0.30, 0.70),
    Requirement("delegations mixed over eight branches", 0.30, 1.0),
    Requirement("rubric pair accuracy", 0.60, 0.85),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One required figure: value (None when there was nothing to count), its base n and whether it holds."""

    requirement: Requirement
    value: float | None
    n: int

    @property
    def holds(self) -> bool:
        """Inside the range; a figure without data does not hold."""
        return self.value is not None and self.requirement.low <= self.value <= self.requirement.high


@dataclass(frozen=True, slots=True)
class Report:
    """All figures, and what else is worth seeing: success by tier, sizes, speed."""

    figures: tuple[Figure, ...]
    extra: Mapping[str, float]

    @property
    def holds(self) -> bool:
        """True when every figure holds."""
        return all(figure.holds for figure in self.figures)


def check(
    ground: Ground,
    policy: Policy,
    *,
    tasks: int = 128,
    seed: int = 0,
    in_flight: int = 64,
    tree_done: Callable[[], None] = lambda: None,
) -> Report:
    """Play held-out tasks with the policy in every role and count."""
    begun = time.monotonic()
    results = asyncio.run(_play(ground, policy, tasks, seed, in_flight, tree_done))
    return count(results, seconds=time.monotonic() - begun)


def count(results: Iterable[TreeResult], *, seconds: float) -> Report:
    """The report over finished trees."""
    trees = list(results)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for tree in trees:
        for table, found in tree.rows.items():
            rows[table] += found
    acts = [turn for turn in rows["turns"] if turn["kind"] == "act"]
    mixed, pairs = branch_figures(rows)
    won = [bool(tree.root.success) for tree in trees if tree.root.success is not None]
    samples: tuple[Sequence[float], ...] = (
        [turn["action"] is not None for turn in acts],
        [rubric["valid"] for rubric in rows["rubrics"] if rubric["attempt"] == 0],
        [score["valid"] for score in rows["scores"] if score["attempt"] == 0],
        won,
        mixed,
        pairs,
    )
    figures = tuple(
        Figure(requirement, _mean(sample), len(sample))
        for requirement, sample in zip(REQUIREMENTS, samples, strict=True)
    )
    tokens = sum(len(turn["completion_ids"] or ()) for turn in rows["turns"])
    extra = {
        **_by_tier(trees),
        "children won": _mean([label["value"] for label in rows["labels"] if "/" in label["node_id"]]) or 0.0,
        "turns an agent": len(acts) / max(1, len(rows["nodes"])),
        "episodes": len(rows["nodes"]),
        "episodes per second": len(rows["nodes"]) / seconds,
        "sampled tokens per second": tokens / seconds,
        "seconds": seconds,
    }
    return Report(figures, {name: round(value, 3) for name, value in extra.items()})


def branch_figures(rows: Mapping[str, list[dict[str, Any]]]) -> tuple[list[bool], list[float]]:
    """Per complete group of eight whether it is mixed; per success-failure pair 1, .5 (tie) or 0 of its scores."""
    values = {label["node_id"]: label["value"] for label in rows["labels"] if label["valid"]}
    scores = {s["node_id"]: s["final_score"] for s in rows["scores"] if s["valid"] and s["attempt"] == 0}
    groups: dict[str, list[str]] = defaultdict(list)
    for branch in rows["branches"]:
        if branch["k"] == BRANCHES and branch["complete"]:
            groups[branch["delegation_id"]].append(branch["node_id"])
    mixed: list[bool] = []
    pairs: list[float] = []
    for nodes in groups.values():
        won = [node for node in nodes if values.get(node) == 1]
        lost = [node for node in nodes if values.get(node) == 0]
        mixed.append(bool(won) and bool(lost))
        for a in won:
            for b in lost:
                if a in scores and b in scores:
                    gap = scores[a] - scores[b]
                    pairs.append(0.5 if abs(gap) < 1e-9 else float(gap > 0))
    return mixed, pairs


async def _play(
    ground: Ground, policy: Policy, tasks: int, seed: int, in_flight: int, tree_done: Callable[[], None]
) -> list[TreeResult]:
    chosen = ground.held_out_tasks(seed, tasks)
    policies: dict[Role, Policy] = {"act": policy, "writer": policy, "scorer": policy}
    services = ground.services(policies, rubrics=True, k=BRANCHES)
    room = asyncio.Semaphore(in_flight)

    async def play(index: int) -> TreeResult:
        async with room:
            result = await run_tree(TreePlan("check", 0, chosen[index], 0, "rubric", seed), services)
        tree_done()
        return result

    return list(await asyncio.gather(*(play(index) for index in range(len(chosen)))))


def _by_tier(trees: list[TreeResult]) -> dict[str, float]:
    won: dict[str, list[bool]] = defaultdict(list)
    for tree in trees:
        if tree.root.success is not None:
            won[tree.rows["tasks"][0]["difficulty"]].append(tree.root.success)
    return {f"won {tier}": sum(found) / len(found) for tier, found in sorted(won.items())}


def _mean(sample: Iterable[float]) -> float | None:
    found = list(sample)
    return sum(found) / len(found) if found else None
