"""Judge against program: agreement, base rates and repeat consistency, with task-clustered intervals.

Invariant: `measure.prepare` has made the tables. Compares votes of one source and version only, on nodes that the
program has judged as well; without such
nodes the numbers are null with a reason, and without any judge there is no section.
Run: ``sera audit STORE``, section "Judges".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from analysis.judge_metrics import JUDGE_METRICS
from analysis.metrics import Metric
from analysis.query import rows
from analysis.results import Agreement, Estimate

if TYPE_CHECKING:
    import duckdb

KEY = ("kind", "source", "version", "slice", "level")
TASKS = {"nodes": "node_tasks", "repeats": "repeat_tasks", "votes": "vote_tasks", "voted": "voted_tasks"}


def agreement(con: duckdb.DuckDBPyConnection) -> list[Agreement]:
    """Every rater's agreement by slice, `all` first; `con` has the audit's tables prepared."""
    found: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in rows(con, "judge_intervals"):
        found.setdefault(tuple(row[name] for name in KEY), {})[row["metric"]] = row
    results = []
    for size in rows(con, "judge_sizes"):
        measured = found.get(tuple(size[name] for name in KEY), {})
        metrics = {name: _estimate(metric, size, measured.get(name)) for name, metric in JUDGE_METRICS.items()}
        about = {name: size[name] for name in (*KEY, "nodes", "repeats", "votes", "invalid")}
        results.append(Agreement(**about, metrics=metrics))
    return results


def _estimate(metric: Metric, size: dict[str, Any], row: dict[str, Any] | None) -> Estimate:
    n, tasks = size[metric.unit], size[TASKS[metric.unit]]
    about = {"metric": metric.name, "n": n, "unit": metric.unit, "tasks": tasks}
    if row is None or not math.isfinite(row["value"]):
        return Estimate(**about, value=None, note=_why(metric, n))
    low, high = row["low"], row["high"]
    if tasks < 2 or low is None or high is None:
        return Estimate(**about, value=row["value"], note="no interval: one task only" if tasks < 2 else None)
    low, high = min(low, row["value"]), max(high, row["value"])
    return Estimate(**about, value=row["value"], low=low, high=high, spread=row["spread"])


def _why(metric: Metric, n: int) -> str:
    if n == 0:
        wanted = {"nodes": "no node has verdicts of both", "repeats": "no node has two valid votes"}
        return wanted.get(metric.unit, "no votes")
    return "every verdict is the same, so there is nothing to agree on beyond chance"
