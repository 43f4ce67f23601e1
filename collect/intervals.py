"""Success rates with honest intervals. Pure functions.

Invariant: the unit of chance is the task, not the sample: samples of one task are not independent, so the bootstrap
draws whole tasks; differences between two policies are paired by task. Draws are seeded, so a figure can be repeated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

RESAMPLES = 10_000
CHUNK = 500


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval; n is the number of tasks (of trials for `wilson`)."""

    value: float
    low: float
    high: float
    n: int


def wilson(successes: int, n: int, *, confidence: float = 0.95) -> Estimate:
    """Wilson score interval of a share of independent trials."""
    if n == 0:
        return Estimate(math.nan, 0.0, 1.0, 0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Estimate(share, max(0.0, centre - half), min(1.0, centre + half), n)


def bootstrap_mean(values: Sequence[float], *, confidence: float = 0.95, seed: int = 0) -> Estimate:
    """Mean over tasks with the percentile interval of a bootstrap over tasks."""
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    rng = np.random.default_rng(seed)
    means = [
        data[rng.integers(0, data.size, size=(min(CHUNK, RESAMPLES - start), data.size))].mean(axis=1)
        for start in range(0, RESAMPLES, CHUNK)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(float(data.mean()), float(low), float(high), int(data.size))


def paired_difference(
    before: Mapping[str, float], after: Mapping[str, float], *, confidence: float = 0.95, seed: int = 0
) -> Estimate:
    """Mean of after - before over the tasks that both have, with the interval of a bootstrap over those tasks."""
    shared = sorted(before.keys() & after.keys())
    return bootstrap_mean([after[task] - before[task] for task in shared], confidence=confidence, seed=seed)


def success_at(k: int, *, n: int, successes: int) -> float:
    """Unbiased chance that at least one of k samples succeeds, from n samples of which some did (n >= k)."""
    if k > n:
        msg = f"success@{k} needs at least {k} samples, got {n}"
        raise ValueError(msg)
    return 1.0 - math.comb(n - successes, k) / math.comb(n, k)


def student_t(df: int, *, confidence: float = 0.95) -> float:
    """Two-sided quantile of Student's t with `df` degrees of freedom, by bisection on its distribution function."""
    if df < 1:
        msg = f"Student's t needs at least 1 degree of freedom, got {df}"
        raise ValueError(msg)
    low, high = 0.0, 1.0
    while _t_within(high, df) < confidence:
        low, high = high, high * 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_within(middle, df) < confidence else (low, middle)
    return (low + high) / 2


def _t_within(t: float, df: int) -> float:
    """P(|T| <= t) in closed form (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(df))
    cosine, term, total = math.cos(angle), 1.0, 1.0
    first = 1 if df % 2 == 0 else 2
    for j in range(first, df - 2, 2):
        term *= j / (j + 1) * cosine * cosine
        total += term
    if df % 2 == 0:
        return math.sin(angle) * total
    return 2 / math.pi * (angle + (math.sin(angle) * cosine * total if df > 1 else 0.0))
