"""Gates: thresholds as data, judged on an audit's numbers.

Invariant: a gate with too few observations never fails; a gate that names an unknown metric is a usage error; an
undefined value is "too few", not a pass.
Run: ``sera audit STORE --gates default`` or ``--gates my_gates.yaml``; a failing gate ends with exit code 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field

from analysis.metrics import METRICS
from analysis.results import Check, Estimate, Gate, Slice
from analysis.wording import number
from sera_data.config import Config, load_config
from sera_data.errors import ConfigError, GateFailed

BASIS = {  # the count that a coverage share is a share of
    "complete": "forked",
    "mixed": "forked",
    "mixed_scored": "mixed",
    "labelled": "child_nodes_ran",
    "audited": "child_nodes_ran",
    "rubrics_valid": "rubrics_written",
    "rubrics_distinct": "rubrics_valid",
    "scores_valid": "scores_written",
    "trees_infra": "trees",
}


class GateRule(Config):
    """One entry of a gates file."""

    metric: str
    slice: Literal["all", "depth", "difficulty", "epoch"] = "all"
    level: str = "all"
    side: Literal["below", "above", "away"]
    min_n: int = Field(default=1, ge=0)
    warn: float | None = None
    fail: float | None = None


class GateFile(Config):
    """A gates file."""

    gates: tuple[GateRule, ...]


def load_gates(path: Path | None = None) -> GateFile:
    """Read a gates file; None reads the packaged defaults."""
    if path is not None:
        return load_config(GateFile, path)
    text = (files("analysis") / "gates.yaml").read_text(encoding="utf-8")
    return GateFile.model_validate(yaml.safe_load(text))


def judge(
    rules: GateFile,
    *,
    slices: Sequence[Slice],
    counts: dict[str, int],
    shares: dict[str, float | None],
    integrity: Sequence[Check],
) -> list[Gate]:
    """Judge every gate; one result per matching level."""
    checks = {check.check: check for check in integrity}
    results: list[Gate] = []
    for rule in rules.gates:
        room, _, name = rule.metric.rpartition(".")
        if room == "coverage" and name in BASIS:
            results.append(_judge(rule, "all", shares[name], counts[BASIS[name]]))
        elif room == "integrity" and name in checks:
            results.append(_judge(rule, "all", float(checks[name].found), checks[name].looked_at))
        elif not room and name in METRICS:
            results.extend(_on_slices(rule, slices))
        else:
            allowed = [*METRICS, *(f"coverage.{n}" for n in BASIS), *(f"integrity.{n}" for n in checks)]
            msg = f"unknown gate metric {rule.metric!r}; allowed: {', '.join(allowed)}"
            raise ConfigError(msg)
    return results


def _on_slices(rule: GateRule, slices: Sequence[Slice]) -> list[Gate]:
    parts = [part for part in slices if part.slice == rule.slice and rule.level in (part.level, "*")]
    estimates: list[tuple[str, Estimate]] = [(part.level, part.metrics[rule.metric]) for part in parts]
    if not estimates and rule.level != "*":
        return [_judge(rule, rule.level, None, 0)]
    return [_judge(rule, level, estimate.value, estimate.n) for level, estimate in estimates]


def _judge(rule: GateRule, level: str, value: float | None, n: int) -> Gate:
    where = "" if rule.slice == "all" else f" at {rule.slice} {level}"
    percent = rule.metric.startswith("coverage.") or (rule.metric in METRICS and METRICS[rule.metric].percent)
    whole = rule.metric.startswith("integrity.")

    def shown(x: float) -> str:
        return f"{x:g}" if whole else number(x, percent=percent)

    status: Literal["pass", "warn", "fail", "too few"] = "pass"
    if value is None or n < rule.min_n:
        status = "too few"
        text = f"{rule.metric}{where}: {n} of the {rule.min_n} observations that the gate asks for"
    else:
        if _beyond(rule.side, value, rule.fail):
            status = "fail"
        elif _beyond(rule.side, value, rule.warn):
            status = "warn"
        limit = rule.fail if status == "fail" or rule.warn is None else rule.warn
        bound = {"below": "at least", "above": "at most", "away": "within ±"}[rule.side]
        want = "no threshold set" if limit is None else f"wanted {bound} {shown(limit)}".replace("± ", "±")
        text = f"{rule.metric}{where} is {shown(value)}, {want}"
    return Gate(
        metric=rule.metric,
        slice=rule.slice,
        level=level,
        value=value,
        n=n,
        min_n=rule.min_n,
        side=rule.side,
        warn=rule.warn,
        fail=rule.fail,
        status=status,
        text=text,
    )


def _beyond(side: str, value: float, threshold: float | None) -> bool:
    if threshold is None:
        return False
    if side == "below":
        return value < threshold - 1e-9
    return (abs(value) if side == "away" else value) > threshold + 1e-9


def enforce(gates: Sequence[Gate]) -> None:
    """Raise GateFailed when a gate failed; the message names each."""
    failed = [gate.text for gate in gates if gate.status == "fail"]
    if failed:
        msg = f"{len(failed)} of {len(gates)} gates failed: {'; '.join(failed)}"
        raise GateFailed(msg, hint="'sera audit STORE --html FILE' shows where; thresholds are in the gates file")
