"""Gates: thresholds as data, judged on an audit's numbers.

Invariant: a gate with too few observations never fails; a gate that names an unknown metric is a usage error; an
undefined value is "too few", not a pass. An estimate with an interval fails only when it is beyond the threshold for
sure: one-sided p (normal, bootstrap standard error) below 0.05 after Holm's correction over all gates of the audit.
Run: ``sera audit STORE`` or ``--gates my_gates.yaml``; a failing gate ends with exit code 3, ``--gates none`` does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import yaml
from pydantic import Field

from analysis.evidence import Evidence
from analysis.judge_metrics import JUDGE_METRICS
from analysis.metrics import CHECKS, METRICS
from analysis.results import Gate, Slice
from analysis.sections import section_of
from analysis.wording import number
from sera_data.config import Config, load_config
from sera_data.errors import ConfigError, GateFailed
from sera_data.queries import query

if TYPE_CHECKING:
    import duckdb

SURE = 0.05
Part = Literal["all", "worst", "depth", "difficulty", "epoch", "world", "length"]


class GateRule(Config):
    """One entry of a gates file."""

    metric: str
    slice: Part = "all"
    level: str = "all"
    side: Literal["below", "above", "away"]
    min_n: int = Field(default=1, ge=0)
    warn: float | None = None
    fail: float | None = None


class GateFile(Config):
    """A gates file."""

    gates: tuple[GateRule, ...]


@dataclass(slots=True)
class Candidate:
    """A rule applied to one level, before judging."""

    rule: GateRule
    level: str
    value: float | None
    n: int
    spread: float | None = None

    def p(self, threshold: float | None) -> float | None:
        """One-sided p of 'not beyond the threshold'; None when there is nothing to test."""
        if threshold is None or self.value is None or self.n < self.rule.min_n or not self.spread:
            return None
        return 1 - NormalDist().cdf(_excess(self.rule.side, self.value, threshold) / self.spread)


def load_gates(path: Path | None = None) -> GateFile:
    """Read a gates file; None reads the packaged defaults."""
    if path is not None:
        return load_config(GateFile, path)
    text = (files("analysis") / "gates.yaml").read_text(encoding="utf-8")
    return GateFile.model_validate(yaml.safe_load(text))


def judge(con: duckdb.DuckDBPyConnection, rules: GateFile, evidence: Evidence) -> list[Gate]:
    """Judge every gate; one result per matching level."""
    candidates = [found for rule in rules.gates for found in _candidates(rule, evidence)]
    warns = _adjusted(con, [c.p(c.rule.warn) for c in candidates])
    fails = _adjusted(con, [c.p(c.rule.fail) for c in candidates])
    return [_judge(c, warn, fail) for c, warn, fail in zip(candidates, warns, fails, strict=True)]


def _candidates(rule: GateRule, evidence: Evidence) -> Iterator[Candidate]:
    room, _, name = rule.metric.rpartition(".")
    checks = {check.check: check for check in evidence.integrity}
    if rule.metric in evidence.shares:
        yield Candidate(rule, "all", *evidence.shares[rule.metric])
    elif room == "integrity" and name in checks:
        yield Candidate(rule, "all", float(checks[name].found), checks[name].looked_at)
    elif room == "judge" and name in JUDGE_METRICS:
        for part in (part for part in evidence.agreement if part.slice == "all"):
            estimate = part.metrics[name]
            yield Candidate(rule, f"{part.source} {part.version}", estimate.value, estimate.n, estimate.spread)
    elif rule.metric in CHECKS:
        estimate = evidence.checks[rule.metric]
        yield Candidate(rule, "all", estimate.value, estimate.n, estimate.spread)
    elif rule.metric in METRICS:
        yield from _on_slices(rule, evidence.slices)
    else:
        allowed = [*METRICS, *CHECKS, *evidence.shares, *(f"integrity.{n}" for n in checks)]
        allowed += [f"judge.{n}" for n in JUDGE_METRICS]
        msg = f"unknown gate metric {rule.metric!r}; allowed: {', '.join(allowed)}"
        raise ConfigError(msg)


def _on_slices(rule: GateRule, slices: Sequence[Slice]) -> Iterator[Candidate]:
    parts = [part for part in slices if part.slice == rule.slice and rule.level in (part.level, "*")]
    for part in parts:
        estimate = part.metrics[rule.metric]
        yield Candidate(rule, part.level, estimate.value, estimate.n, estimate.spread)
    if not parts and rule.level != "*" and rule.slice != "worst":
        yield Candidate(rule, rule.level, None, 0)


def _adjusted(con: duckdb.DuckDBPyConnection, values: Sequence[float | None]) -> list[float | None]:
    """Holm-corrected p values, None where there was none."""
    tested = [p for p in values if p is not None]
    corrected = iter(con.execute(query("holm"), {"p_values": tested}).fetchall()[0][0] or [])
    return [None if p is None else next(corrected) for p in values]


def _judge(found: Candidate, p_warn: float | None, p_fail: float | None) -> Gate:
    rule = found.rule
    status: Literal["pass", "warn", "fail", "too few"] = "pass"
    if found.value is None or found.n < rule.min_n:
        status = "too few"
    elif _beyond(found, rule.fail, p_fail):
        status = "fail"
    elif _beyond(found, rule.warn, p_warn):
        status = "warn"
    return Gate(
        section=section_of(rule.metric, rule.slice),
        metric=rule.metric,
        slice=rule.slice,
        level=found.level,
        value=found.value,
        n=found.n,
        min_n=rule.min_n,
        side=rule.side,
        warn=rule.warn,
        fail=rule.fail,
        p_warn=p_warn,
        p_fail=p_fail,
        status=status,
        text=_text(found, status, p_warn if rule.warn is not None else p_fail),
    )


def _text(found: Candidate, status: str, p: float | None) -> str:
    rule = found.rule
    where = "" if rule.slice == "all" and found.level == "all" else f" at {rule.slice} {found.level}"
    where = where.replace(" at all ", " of ").replace(" at worst all", " with unusable scores as worst")
    if status == "too few":
        return f"{rule.metric}{where}: {found.n} of the {rule.min_n} observations that the gate asks for"
    room, _, name = rule.metric.rpartition(".")
    known = METRICS | CHECKS
    percent = room in ("coverage", "items", "rubrics") or (not room and known[name].percent)

    def shown(x: float) -> str:
        return f"{x:g}" if room == "integrity" else number(x, percent=percent)

    limit = rule.fail if status == "fail" or rule.warn is None else rule.warn
    bound = {"below": "at least", "above": "at most", "away": "within ±"}[rule.side]
    want = "no threshold set" if limit is None else f"wanted {bound} {shown(limit)}".replace("± ", "±")
    assert found.value is not None
    unsure = ""
    if status == "pass" and limit is not None and _excess(rule.side, found.value, limit) > 1e-9 and p is not None:
        unsure = f", but not beyond it for sure (p {p:.2f} after correction)"
    return f"{rule.metric}{where} is {shown(found.value)}, {want}{unsure}"


def _excess(side: str, value: float, threshold: float) -> float:
    """How far beyond the threshold on its bad side; negative on the good one."""
    if side == "below":
        return threshold - value
    return (abs(value) if side == "away" else value) - threshold


def _beyond(found: Candidate, threshold: float | None, p: float | None) -> bool:
    if threshold is None or found.value is None:
        return False
    over = _excess(found.rule.side, found.value, threshold) > 1e-9
    return over and (p is None or p < SURE)


def enforce(gates: Sequence[Gate]) -> None:
    """Raise GateFailed when a gate failed; the message names each."""
    failed = [gate.text for gate in gates if gate.status == "fail"]
    if failed:
        msg = f"{len(failed)} of {len(gates)} gates failed: {'; '.join(failed)}"
        raise GateFailed(msg, hint="'sera audit STORE --html FILE' shows where; thresholds are in the gates file")
