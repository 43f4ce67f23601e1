"""The metrics of the audit: title, unit, direction and how the interval is made, read from `metrics.yaml`.

Invariant: each name is a column of one SQL file (or derived from one, `calibration_error`); nothing is computed here.
Run: ``sera audit STORE`` prints them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

import yaml

Unit = Literal["pairs", "groups", "scores", "nodes", "repeats", "votes", "changes", "rubrics"]
Better = Literal["higher", "lower", "zero"]
Interval = Literal["percentile", "centred"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    unit: what n counts. better: where good values lie. low, high: possible range. interval: `percentile` takes
    the bootstrap range as it is; `centred` moves it so that the replicates' mean is the estimate, for errors that
    grow when noise is added. percent: shown as a percentage. about: how to read it, one sentence.
    """

    name: str
    title: str
    unit: Unit
    better: Better
    low: float
    high: float
    about: str
    interval: Interval = "percentile"
    percent: bool = False


def _read(entries: dict[str, dict[str, Any]]) -> dict[str, Metric]:
    found = {}
    for name, entry in entries.items():
        low, high = entry.pop("range")
        found[name] = Metric(name=name, low=low, high=high, **entry)
    return found


_TEXT = yaml.safe_load((files("analysis") / "metrics.yaml").read_text(encoding="utf-8"))

METRICS: dict[str, Metric] = _read(_TEXT["metrics"])
"""Metrics of every slice."""

CHECKS: dict[str, Metric] = _read(_TEXT["checks"])
"""Metrics of the whole only."""

HEADLINES: tuple[str, ...] = ("pair_accuracy", "mean_hinge", "calibration_error")

SECTIONS: dict[str, tuple[str, ...]] = {title: tuple(names) for title, names in _TEXT["sections"].items()}
"""Metrics of every slice by section of the report."""
