"""Rates of an evaluation from its rows: two success rates, bands, success@k, several seeds together. Pure functions.

Invariant: an infrastructure error is never silently a failure or a missing row: `success` leaves errors out, and
`benchmark_success` counts them as failures, as the published tables do; both come with their number of errors. Rates
are of counts, never means of means, except over seeds, where the spread is what is asked for.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from collect.intervals import bootstrap_mean, student_t, success_at, wilson
from collect.sharding import band_key

Row = Mapping[str, Any]
KS = (1, 2, 4, 8, 16, 32)
AXES: Mapping[str, str] = {
    "difficulty": "difficulty",
    "family": "family",
    "true_depth": "true_depth",
    "depth_used": "max_depth",
}
"""Breakdowns of a report, and the column of each; levels that are null are left out."""


def rates(rows: Sequence[Row]) -> dict[str, Any]:
    """Both rates of a set of trees with their intervals, as plain JSON values.

    success: successes / judged trees, Wilson and task-bootstrap intervals. benchmark_success: successes / all trees,
    errors as failures, Wilson. None where there is nothing to count.
    """
    judged = [row for row in rows if row["success"] is not None]
    wins = sum(bool(row["success"]) for row in judged)
    counts = task_counts(rows)
    per_task = bootstrap_mean([won / n for _, (won, n) in sorted(counts.items())])
    apart, together = wilson(wins, len(judged)), wilson(wins, len(rows))
    return {
        "tasks": len(counts),
        "trees": len(judged),
        "successes": wins,
        "errors": len(rows) - len(judged),
        "success": wins / len(judged) if judged else None,
        "bootstrap": [_number(per_task.low), _number(per_task.high)],
        "wilson": [apart.low, apart.high],
        "benchmark_success": wins / len(rows) if rows else None,
        "benchmark_wilson": [together.low, together.high],
    }


def breakdown(rows: Sequence[Row], axis: str) -> dict[str, Any]:
    """Rates by level of an axis of `AXES`, in natural order; empty where no row has a level."""
    column = AXES[axis]
    levels: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        if row.get(column) is not None:
            levels[row[column]].append(row)
    return {str(level): rates(levels[level]) for level in sorted(levels, key=lambda level: band_key(str(level)))}


def task_counts(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    """Successes and judged samples by task; a task whose samples were all lost has no entry."""
    table: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row["success"] is not None:
            wins, n = table.get(row["task_id"], (0, 0))
            table[row["task_id"]] = (wins + bool(row["success"]), n + 1)
    return table


def success_at_ks(rows: Sequence[Row]) -> dict[str, float]:
    """Unbiased success@k over tasks for every k up to the fewest judged samples of a task."""
    counts = list(task_counts(rows).values())
    fewest = min((n for _, n in counts), default=0)
    return {str(k): fmean(success_at(k, n=n, successes=wins) for wins, n in counts) for k in KS if k <= fewest}


def over_seeds(runs: Sequence[Sequence[Row]]) -> dict[str, Any]:
    """Several evaluations that differ in the seed only: mean, sd and interval of both rates.

    interval: Student's t over the seeds (chance of the sampling, the tasks fixed; None for one seed). bootstrap: over
    tasks of the mean of all samples (chance of the tasks).
    """
    per_run = [rates(rows) for rows in runs]
    pooled = task_counts([row for rows in runs for row in rows])
    tasks = bootstrap_mean([won / n for _, (won, n) in sorted(pooled.items())])
    return {
        "runs": len(runs),
        "success": spread([run["success"] for run in per_run]),
        "benchmark_success": spread([run["benchmark_success"] for run in per_run]),
        "bootstrap": [_number(tasks.low), _number(tasks.high)],
        "errors": sum(run["errors"] for run in per_run),
        "by_difficulty": _spreads(runs),
    }


def spread(values: Sequence[float | None]) -> dict[str, Any]:
    """Mean, sample standard deviation and 95 % t interval of the values that exist; None where too few do."""
    known = [value for value in values if value is not None]
    if not known:
        return {"mean": None, "sd": None, "interval": None, "values": list(values)}
    mean = fmean(known)
    if len(known) == 1:
        return {"mean": mean, "sd": None, "interval": None, "values": list(values)}
    sd = stdev(known)
    half = student_t(len(known) - 1) * sd / math.sqrt(len(known))
    interval = [max(0.0, mean - half), min(1.0, mean + half)]
    return {"mean": mean, "sd": sd, "interval": interval, "values": list(values)}


def mean_of(rows: Sequence[Row], column: str, *, of: Callable[[Row], bool] = lambda row: True) -> float | None:
    """Mean of a column over the rows that pass."""
    values = [row[column] for row in rows if of(row)]
    return fmean(values) if values else None


def _spreads(runs: Sequence[Sequence[Row]]) -> dict[str, Any]:
    tables = [breakdown(rows, "difficulty") for rows in runs]
    bands = sorted({band for table in tables for band in table}, key=band_key)
    return {band: spread([table[band]["success"] for table in tables if band in table]) for band in bands}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
