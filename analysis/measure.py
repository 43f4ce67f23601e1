"""Runs the metric files on one connection and shapes their rows into results.

Invariant: works on any DuckDB connection that has the ten tables and the derived views, empty ones included; every
number comes out of a SQL file, an undefined one is null with a note. What the bootstrap adds up are whole numbers, so
sums do not depend on the number of threads.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from analysis.metrics import CHECKS, METRICS, Metric
from analysis.query import all_threads, counted, rows
from analysis.results import Check, Estimate, ReliabilityRow, Slice

if TYPE_CHECKING:
    import duckdb

MARGIN = 0.2
REPS = 1000
SEED = 17
DISTINCT_LIMIT = 21
REPEATED_ENOUGH = 0.9
MOST_BLOCKS, COARSE_BLOCKS = 5_000, 500  # more tasks than this share bootstrap blocks: over all, and in slices
MOST_LEVELS, COARSE_LEVELS = 64, 32  # distinct scores that replicates tell apart; else so many bins
MOST_ITEMS, FEWEST_ITEM_SCORES = 24, 30
DERIVED = {
    "calibration_error": ("l2_squared", "l2_squared_bins"),
    "curve_error": ("curve_squared", "curve_squared_bins"),
}
SLICES = ("all", "worst", "depth", "difficulty", "epoch", "world", "length")

SAMPLES = (
    "truth", "children", "launches", "written", "scorers", "given", "sample", "groups", "judged", "judge_raters"
)  # fmt: skip
CELLS = ("exact_cells", "drift_cells", "item_cells", "leak_cells", "judge_cells")
LEVELS = ("score_reps", "score_bins", "calibration", "calibration_bins", "brier", "rank", "pair_metrics", "rank_gap")
OTHERS = ("score_agreement", "leak_metrics", "drift_metrics", "item_metrics", "judge_metrics", "replicates")


def prepare(con: duckdb.DuckDBPyConnection, *, reps: int = REPS, seed: int = SEED, margin: float = MARGIN) -> None:
    """Build the audit's temporary tables: samples, weights, cells, and every metric per slice and replicate.

    Weights and sums per block are made once and multiplied; all metrics are arithmetic on the products. From there on
    one thread, because sums of fractions depend on their order and an audit must give the same digits twice.
    """
    all_threads(con)
    con.execute("set checkpoint_threshold = '1TB'")  # in memory: nothing to write, and compressing tables costs seconds
    for name in SAMPLES:
        rows(con, name)
    rows(con, "boot_blocks", seed=seed, most_blocks=MOST_BLOCKS)
    rows(con, "weights", reps=reps, coarse_blocks=COARSE_BLOCKS)
    rows(con, "score_levels", most_levels=MOST_LEVELS, coarse_levels=COARSE_LEVELS)
    for name in ("located", "pairs_sample", "group_ranks", "item_sums"):
        rows(con, name)
    rows(con, "item_names", most_items=MOST_ITEMS, fewest=FEWEST_ITEM_SCORES)
    rows(con, "score_cells", coarse_blocks=COARSE_BLOCKS)
    rows(con, "pair_cells", margin=margin, coarse_blocks=COARSE_BLOCKS)
    for name in (*CELLS, "coverage"):
        rows(con, name)
    rows(con, "cells", coarse_blocks=COARSE_BLOCKS)
    rows(con, "boot_lists", coarse_blocks=COARSE_BLOCKS)
    for name in ("boot_products", "boot_sums"):
        rows(con, name)
    con.execute("set threads = 1")
    for name in (*LEVELS, *OTHERS):
        rows(con, name)


def slices(con: duckdb.DuckDBPyConnection) -> list[Slice]:
    """Every slice with its metrics; the first one is ('all', 'all'), present even when nothing was scored."""
    found = _measured(con)
    sizes = counted(con, "sizes")
    if not any(size["slice"] == "all" for size in sizes):
        empty = dict.fromkeys(("scores", "score_tasks", "pairs", "groups", "pair_tasks"), 0)
        sizes.insert(0, {"slice": "all", "level": "all", **empty})
    sizes.sort(key=lambda size: SLICES.index(size["slice"]))
    return [Slice(**size, metrics=_metrics(size, found.get((size["slice"], size["level"]), {}))) for size in sizes]


def checks(con: duckdb.DuckDBPyConnection) -> dict[str, Estimate]:
    """The metrics of the whole only: drift, and signs that scores are made of something else than the work."""
    found = _measured(con)
    sizes = rows(con, "leak_sizes")[0]
    changes = rows(con, "drift_sizes")[0]
    result = {}
    for name, metric in CHECKS.items():
        if metric.unit == "changes":
            measured, n, tasks = found.get(("drift", "all"), {}).get(name), changes["n"], changes["tasks"]
            why = "no task was scored in two epochs in a row"
        else:
            measured, n, tasks = found.get(("all", "all"), {}).get(name), sizes[name] or 0, sizes["tasks"]
            why = "no scored node that this could be read from"
        size = {metric.unit: n, "score_tasks": tasks, "scores": n}
        result[name] = estimate(metric, size, measured, why=why)
    return result


def drift_steps(con: duckdb.DuckDBPyConnection) -> list[tuple[str, Estimate, Estimate, Estimate]]:
    """('0 to 1', drift, change of score, change of success) per step between epochs."""
    found = _measured(con)
    steps = []
    for row in rows(con, "drift_steps"):
        size = {"changes": row["n"], "score_tasks": row["tasks"], "scores": row["n"]}
        measured = found.get(("drift", row["level"]), {})
        names = ("drift", "score_change", "success_change")
        drift, score, success = (estimate(CHECKS[n], size, measured.get(n), why="no task in both") for n in names)
        steps.append((row["level"], drift, score, success))
    return steps


def _measured(con: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows(con, "intervals"):
        found.setdefault((row["slice"], row["level"]), {})[row["metric"]] = row
    return found


def _metrics(size: dict[str, Any], measured: dict[str, dict[str, Any]]) -> dict[str, Estimate]:
    estimates = {
        name: estimate(metric, size, measured.get(name)) for name, metric in METRICS.items() if name not in DERIVED
    }
    return {name: estimates[name] if name in estimates else _derived(name, estimates) for name in METRICS}


def estimate(metric: Metric, size: dict[str, Any], row: dict[str, Any] | None, *, why: str | None = None) -> Estimate:
    """One metric from its row of `intervals.sql`; without a row undefined, with the reason."""
    n = size[metric.unit]
    tasks = size["pair_tasks" if metric.unit in ("pairs", "groups") else "score_tasks"]
    if row is None or not math.isfinite(row["value"]):
        note: str | None = why or _why(metric, size)
        return Estimate(metric=metric.name, value=None, n=n, unit=metric.unit, tasks=tasks, note=note)
    low, high, spread = row["low"], row["high"], row["spread"]
    if tasks < 2 or low is None or high is None:
        note = "no interval: one task only" if tasks < 2 else None
        return Estimate(metric=metric.name, value=row["value"], n=n, unit=metric.unit, tasks=tasks, note=note)
    if metric.interval == "centred":
        low, high = low - row["shift"], high - row["shift"]
    low, high = max(min(low, row["value"]), metric.low), min(max(high, row["value"]), metric.high)
    about = {"metric": metric.name, "n": n, "unit": metric.unit, "tasks": tasks}
    return Estimate(**about, value=row["value"], low=low, high=high, spread=spread)


def _why(metric: Metric, size: dict[str, Any]) -> str:
    if size["scores"] == 0:
        return f"no scored nodes with a verdict yet, so {_lower_first(metric.title)} is not defined"
    if metric.unit != "scores":
        return f"no mixed delegations yet, so {_lower_first(metric.title)} is not defined"
    if metric.name.startswith(("l2_squared", "curve_squared")):
        return "every score occurs once, so sampling noise cannot be taken out"
    return (
        f"all scored nodes succeeded, all failed, or all have one score, so {_lower_first(metric.title)} is not defined"
    )


def _lower_first(title: str) -> str:
    """'Pair accuracy' inside a sentence; acronyms and names keep their capital."""
    word = title.split()[0]
    names = ("Brier:", "Brier", "Spearman", "Spearman,", "Kendall", "AUROC,", "Cohen's")
    return title if word.isupper() or word in names else title[0].lower() + title[1:]


def _derived(name: str, estimates: dict[str, Estimate]) -> Estimate:
    """Root of a debiased square: on distinct scores when they repeat, else on equal-mass bins."""
    exact, binned = DERIVED[name]
    repeated = (estimates["repeated"].value or 0.0) >= REPEATED_ENOUGH
    source = estimates[exact if repeated else binned]
    if source.value is None:
        title = _lower_first(METRICS[source.metric].title)
        note: str | None = (source.note or "").replace(title, _lower_first(METRICS[name].title).split(",")[0])
        return source.model_copy(update={"metric": name, "note": note})
    value = _root(source.value)
    return source.model_copy(
        update={
            "metric": name,
            "value": value,
            "low": None if source.low is None else _root(source.low),
            "high": None if source.high is None else _root(source.high),
            "spread": None if source.spread is None else _root_spread(value, source.spread),
            "note": source.note if repeated else "on equal-mass bins, because few scores repeat",
        }
    )


def _root(square: float) -> float:
    return math.sqrt(max(square, 0.0))


def _root_spread(root: float, spread: float) -> float:
    """Standard error of a root from that of its square: by its slope, or as if it were 0."""
    return spread / (2 * root) if root * root > spread else math.sqrt(spread)


def reliability(con: duckdb.DuckDBPyConnection) -> tuple[list[ReliabilityRow], str]:
    """The reliability table and its bin rule: distinct scores when they are few, else equal-mass bins."""
    ((distinct, tasks),) = con.execute("select distinct_scores, audited_tasks from audit_coverage").fetchall()
    if distinct <= DISTINCT_LIMIT:
        table, rule = rows(con, "reliability"), "one row per distinct score"
    else:
        table = rows(con, "reliability_bins")
        rule = f"{len(table)} bins of equal mass that never split ties, because scores take many values"
    if tasks < 2:  # replicates of one task are all the same
        table = [row | {"low": None, "high": None} for row in table]
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
        for row in counted(con, "integrity")
    ]
