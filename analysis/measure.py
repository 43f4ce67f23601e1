"""Runs the metric files on one connection and shapes their rows into results.

Invariant: works on any DuckDB connection that has the ten tables and the derived views, empty ones included; every
number comes out of a SQL file, an undefined one is null with a note.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from analysis.metrics import METRICS, Metric
from analysis.query import rows
from analysis.results import Check, Estimate, ReliabilityRow, Slice

if TYPE_CHECKING:
    import duckdb

MARGIN = 0.2
REPS = 1000
SEED = 17
DISTINCT_LIMIT = 21
REPEATED_ENOUGH = 0.9

SLICE_WORK = 20_000_000  # cells x replicates that slices may cost; a larger store gets fewer replicates per slice
FEWEST_SLICE_REPS = 100
LEVELS = ("score_bins", "calibration", "calibration_bins", "brier", "rank")


def prepare(con: duckdb.DuckDBPyConnection, *, reps: int = REPS, seed: int = SEED, margin: float = MARGIN) -> None:
    """Build the audit's temporary tables: sample, weights, cells, and every metric per slice and replicate.

    One thread, because sums of floats depend on their order and an audit must give the same digits twice.
    """
    con.execute("set threads = 1")
    rows(con, "sample")
    rows(con, "pairs_sample")
    rows(con, "judged")
    rows(con, "weights", reps=reps, seed=seed)
    rows(con, "score_cells")
    cells = con.execute("select count(*) from score_cells").fetchall()[0][0]
    rows(con, "score_reps", slice_reps=min(reps, max(FEWEST_SLICE_REPS, SLICE_WORK // max(cells, 1))))
    for name in LEVELS:
        rows(con, name)
    rows(con, "pair_cells", margin=margin)
    rows(con, "pair_metrics")
    rows(con, "coverage")


def slices(con: duckdb.DuckDBPyConnection) -> list[Slice]:
    """Every slice with its metrics; the first one is ('all', 'all'), present even when nothing was scored."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows(con, "intervals"):
        found.setdefault((row["slice"], row["level"]), {})[row["metric"]] = row
    sizes = rows(con, "sizes")
    if not any(size["slice"] == "all" for size in sizes):
        empty = dict.fromkeys(("scores", "score_tasks", "pairs", "groups", "pair_tasks"), 0)
        sizes.insert(0, {"slice": "all", "level": "all", **empty})
    sizes.sort(key=lambda size: ("all", "depth", "difficulty", "epoch").index(size["slice"]))
    return [Slice(**size, metrics=_metrics(size, found.get((size["slice"], size["level"]), {}))) for size in sizes]


def _metrics(size: dict[str, Any], measured: dict[str, dict[str, Any]]) -> dict[str, Estimate]:
    estimates = {
        name: _estimate(metric, size, measured.get(name))
        for name, metric in METRICS.items()
        if name != "calibration_error"
    }
    return {"calibration_error": _calibration_error(estimates), **estimates}


def _estimate(metric: Metric, size: dict[str, Any], row: dict[str, Any] | None) -> Estimate:
    n = size[metric.unit]
    tasks = size["score_tasks" if metric.unit == "scores" else "pair_tasks"]
    if row is None or not math.isfinite(row["value"]):
        return Estimate(metric=metric.name, value=None, n=n, unit=metric.unit, tasks=tasks, note=_why(metric, size))
    low, high = row["low"], row["high"]
    if tasks < 2 or low is None or high is None:
        note = "no interval: one task only" if tasks < 2 else None
        return Estimate(metric=metric.name, value=row["value"], n=n, unit=metric.unit, tasks=tasks, note=note)
    if metric.interval == "centred":
        low, high = low - row["shift"], high - row["shift"]
    low, high = max(min(low, row["value"]), metric.low), min(max(high, row["value"]), metric.high)
    return Estimate(metric=metric.name, value=row["value"], low=low, high=high, n=n, unit=metric.unit, tasks=tasks)


def _why(metric: Metric, size: dict[str, Any]) -> str:
    if size["scores"] == 0:
        return f"no scored nodes with a verdict yet, so {_lower_first(metric.title)} is not defined"
    if metric.unit != "scores":
        return f"no mixed delegations yet, so {_lower_first(metric.title)} is not defined"
    if metric.name.startswith("l2_squared"):
        return "every score occurs once, so sampling noise cannot be taken out"
    return (
        f"all scored nodes succeeded, all failed, or all have one score, so {_lower_first(metric.title)} is not defined"
    )


def _lower_first(title: str) -> str:
    """'Pair accuracy' inside a sentence; acronyms and names keep their capital."""
    word = title.split()[0]
    return (
        title
        if word.isupper() or word in ("Brier:", "Brier", "Spearman", "Kendall", "AUROC,")
        else title[0].lower() + title[1:]
    )


def _calibration_error(estimates: dict[str, Estimate]) -> Estimate:
    """Root of the debiased square: on distinct scores when they repeat, else on equal-mass bins."""
    repeated = estimates["repeated"].value or 0.0
    source = estimates["l2_squared" if repeated >= REPEATED_ENOUGH else "l2_squared_bins"]
    if source.value is None:
        note: str | None = (source.note or "").replace(_lower_first(METRICS[source.metric].title), "calibration error")
        return source.model_copy(update={"metric": "calibration_error", "note": note})
    note = source.note if repeated >= REPEATED_ENOUGH else "on equal-mass bins, because few scores repeat"
    return source.model_copy(
        update={
            "metric": "calibration_error",
            "value": _root(source.value),
            "low": None if source.low is None else _root(source.low),
            "high": None if source.high is None else _root(source.high),
            "note": note,
        }
    )


def _root(square: float) -> float:
    return math.sqrt(max(square, 0.0))


def reliability(con: duckdb.DuckDBPyConnection) -> tuple[list[ReliabilityRow], str]:
    """The reliability table and its bin rule: distinct scores when they are few, else equal-mass bins."""
    table = rows(con, "reliability")
    if len(table) <= DISTINCT_LIMIT:
        return [ReliabilityRow(**row) for row in table], "one row per distinct score"
    table = rows(con, "reliability_bins")
    rule = f"{len(table)} bins of equal mass that never split ties, because scores take many values"
    return [ReliabilityRow(**row) for row in table], rule


def coverage(con: duckdb.DuckDBPyConnection) -> tuple[dict[str, int], dict[str, float | None]]:
    """What the audit speaks of, as counts and as shares."""
    cursor = con.execute("from audit_coverage")
    names = [column[0] for column in cursor.description or ()]
    counts = dict(zip(names, cursor.fetchall()[0], strict=True))
    return counts, rows(con, "coverage_shares")[0]


def integrity(con: duckdb.DuckDBPyConnection) -> list[Check]:
    """Faults that would make every other number wrong."""
    return [
        Check(check=row["check_name"], meaning=row["meaning"], found=row["found"], looked_at=row["looked_at"])
        for row in rows(con, "integrity")
    ]
