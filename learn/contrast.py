"""Contrasts: a difference between two methods over seeds and tasks, its interval, and the smallest to be seen. Pure.

Invariant: chance has two units, the training seed and the task; both are drawn anew in every resample (crossed
bootstrap), and tasks are paired. A row that was trained with one seed only, or never (the start weights), counts as
fixed in that unit. Draws are seeded.

Power: the standard error of a contrast of S seeds and T tasks with n samples each is
sqrt(2 s^2 / S + t^2 / T + 2 v / (S T n)): s between seeds of one method, t the spread of the effect over tasks,
v = mean p (1 - p) within a task. The smallest effect seen with a chance is (z of the corrected level + z of the
chance) times it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from learn.registered import scratch
from sera_data.queries import query

CHUNK = 1000
Cells = Mapping[int, Mapping[str, float]]
"""Value by seed and task. A row that was never trained has one seed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """better - worse. p: two-sided, of the bootstrap; adjusted: by Holm. positive: seeds whose own mean is above 0."""

    value: float
    low: float
    high: float
    p: float
    n_seeds: int
    n_tasks: int
    positive: int
    adjusted: float = math.nan


def difference(
    better: Cells, worse: Cells, *, resamples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> Difference | None:
    """The mean difference over seeds and tasks that both have; None when there is no task in common.

    Seeds are paired where both rows have them: cells of one seed draw the same training tasks.
    """
    table = _paired(better, worse)
    if table.size == 0:
        return None
    draws = _draws(table, resamples=resamples, seed=seed)
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    beyond = min(int((draws <= 0).sum()), int((draws >= 0).sum()))
    by_seed = table.mean(axis=1)
    return Difference(
        value=float(table.mean()),
        low=float(low),
        high=float(high),
        p=min(1.0, 2 * (beyond + 1) / (resamples + 1)),
        n_seeds=table.shape[0],
        n_tasks=table.shape[1],
        positive=int((by_seed > 0).sum()),
    )


def mean(cells: Cells, *, resamples: int = 10_000, confidence: float = 0.95, seed: int = 0) -> Difference | None:
    """The mean of one row with the interval over seeds and tasks."""
    zero = {s: dict.fromkeys(tasks, 0.0) for s, tasks in cells.items()}
    return difference(cells, zero, resamples=resamples, confidence=confidence, seed=seed)


def _paired(better: Cells, worse: Cells) -> np.ndarray:
    """float64[seeds, tasks]; the one seed of an untrained row stands beside every seed of the other."""
    if len(worse) == 1:
        pairs = [(tasks, next(iter(worse.values()))) for _, tasks in sorted(better.items())]
    elif len(better) == 1:
        pairs = [(next(iter(better.values())), tasks) for _, tasks in sorted(worse.items())]
    else:
        pairs = [(better[seed], worse[seed]) for seed in sorted(better.keys() & worse.keys())]
    shared = sorted(set.intersection(*({*a} & {*b} for a, b in pairs))) if pairs else []
    return np.array([[a[task] - b[task] for task in shared] for a, b in pairs], dtype=np.float64)


def _draws(table: np.ndarray, *, resamples: int, seed: int) -> np.ndarray:
    """Means of resampled tables, float64[resamples]: seeds and tasks drawn with replacement, independently."""
    seeds, tasks = table.shape
    rng = np.random.default_rng(seed)
    parts = []
    for start in range(0, resamples, CHUNK):
        n = min(CHUNK, resamples - start)
        by_seed = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=n)
        by_task = rng.multinomial(tasks, np.full(tasks, 1 / tasks), size=n)
        parts.append(((by_seed @ table) * by_task).sum(axis=1) / (seeds * tasks))
    return np.concatenate(parts)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-corrected p values, in the order given; the audit's gates are corrected by the same statement."""
    found = scratch().execute(query("holm"), {"p_values": list(p_values)}).fetchall()
    return list(found[0][0] or [])


def standard_error(*, seeds: int, tasks: int, samples: int, seed_sd: float, effect_sd: float, within: float) -> float:
    """Of a contrast between two trained rows; all spreads as shares, `within` = mean p (1 - p)."""
    return math.sqrt(2 * seed_sd**2 / seeds + effect_sd**2 / tasks + 2 * within / (seeds * tasks * samples))


def smallest_effect(error: float, *, contrasts: int = 1, level: float = 0.05, chance: float = 0.8) -> float:
    """Smallest true difference whose test at Holm's first step succeeds with `chance`; two-sided, normal."""
    normal = NormalDist()
    return (normal.inv_cdf(1 - level / (2 * max(1, contrasts))) + normal.inv_cdf(chance)) * error
