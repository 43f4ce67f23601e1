"""The report of evaluations: figures of every protocol and policy beside the published ones, as plain JSON values.

Invariant: a figure is computed from checked rows only (`collect.eval_check`); evaluations are put together only when
they differ in nothing but the seed; what is pending or was lost to infrastructure is said beside every rate. Published
figures are quoted with their source and never mixed into ours.

Run: ``sera eval report runs/store --html runs/eval.html``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

import sera_data
from collect.eval_check import check_evaluation, eval_plans
from collect.eval_plan import settled_phase
from collect.evaluation import report
from collect.overlap import overlap_of, training_tasks
from collect.protocol import Protocol, protocol_names, read_protocol
from collect.rates import AXES, breakdown, over_seeds, rates, success_at_ks
from collect.sharding import band_key
from collect.world import Task
from sera_data.errors import StoreError, UsageError
from sera_data.layout import shard_plan
from sera_data.place import Place
from sera_data.plan import Plan
from sera_data.store import Store

ALIKE = (
    "protocol", "protocol_sha256", "policy", "policy_version", "weights_sha256", "dialect", "selection", "candidates"
)  # fmt: skip
"""Evaluations that agree in these differ in the seed (and perhaps in the code version) only."""


@dataclass(frozen=True, slots=True)
class Run:
    """One evaluation of a store: its plan and its rows."""

    store: Store
    plan: Plan
    rows: tuple[dict[str, Any], ...]

    def planned(self) -> int:
        """Trees planned."""
        return sum(unit["n_groups"] * unit["n_samples"] for unit in self.plan.units)


def report_of(
    stores: Sequence[Path], *, protocol: str | None = None, runs: Sequence[str] = (), train: Path | None = None
) -> dict[str, Any]:
    """The report of all evaluations of some stores that the filters leave; UsageError when none is left."""
    found = [run for path in stores for run in read_runs(sera_data.open(path))]
    found = [run for run in found if protocol in (None, run.rows[0]["protocol"])]
    found = [run for run in found if not runs or run.plan.run_id in runs]
    if not found:
        where = ", ".join(map(str, stores))
        msg = f"no evaluation in {where} for protocol {protocol or 'any'} and run {', '.join(runs) or 'any'}"
        raise UsageError(msg, hint="'sera data sql STORE \"select distinct run_id, protocol from evals\"' lists them")
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in found:
        groups.setdefault(tuple(run.rows[0].get(key) for key in ALIKE), []).append(run)
    bodies = [_group(members, train) for members in groups.values()]
    return {"stores": [str(path) for path in stores], "groups": bodies}


def read_runs(store: Store) -> list[Run]:
    """The evaluations of a store that have rows, checked; StoreError names the path of what does not belong."""
    plans = eval_plans(store)
    for plan in plans:
        check_evaluation(store, plan)
    known = {(plan.run_id, plan.epoch) for plan in plans}
    for row in store.sql(_sql("evaluation_shards")).pl().to_dicts():
        if (row["run_id"], row["epoch"]) not in known:
            msg = (
                f"{_place(store, row['shard_id'])} holds evals of run {row['run_id']}, which no plan of the store names"
            )
            raise StoreError(msg, hint="move it out of the store; 'sera data verify STORE' names what else is wrong")
    found = []
    for plan in plans:
        rows = store.sql(_sql("evaluations"), {"run_id": plan.run_id, "epoch": plan.epoch}).pl().to_dicts()
        if rows:
            found.append(Run(store, plan, tuple(rows)))
    return found


def published_figures(protocol: str) -> list[dict[str, Any]]:
    """Published figures for the tasks of a protocol, one dict per system with its source; rates from 0 to 1."""
    text = files("collect").joinpath("published_figures.yaml").read_text(encoding="utf-8")
    found = []
    for table in yaml.safe_load(text):
        if table["protocol"] != protocol:
            continue
        for figure in table["figures"]:
            bands = {band: value / 100 for band, value in figure.get("by_difficulty", {}).items()}
            sd = figure.get("sd")
            found.append(
                {
                    "system": figure["system"],
                    "dialect": table["dialect"],
                    "success": figure["success"] / 100,
                    "sd": None if sd is None else sd / 100,
                    "by_difficulty": bands,
                    "source": table["source"],
                }
            )
    return found


def _group(runs: Sequence[Run], train: Path | None) -> dict[str, Any]:
    first = runs[0].rows[0]
    rows = [row for run in runs for row in run.rows]
    protocol = read_protocol(first["protocol"]) if first["protocol"] in protocol_names() else None
    return {
        **{key: first.get(key) for key in (*ALIKE, "temperature", "world")},
        **_about(protocol, runs),
        "tasks": len({row["task_id"] for row in rows}),
        "runs": [_run(run) for run in runs],
        "seeds": over_seeds([run.rows for run in runs]),
        "pooled": rates(rows),
        "success_at": success_at_ks(rows),
        **{f"by_{axis}": breakdown(rows, axis) for axis in AXES},
        "outcomes": dict(sorted(Counter(row["outcome"] for row in rows).items())),
        "failures": _failures(runs),
        "errors": dict(Counter(row["error"] for row in rows if row["success"] is None).most_common(5)),
        "published": published_figures(first["protocol"]),
        "overlap": _overlap(runs, protocol, train),
        "changed": [] if protocol is None else _changed(runs[0], protocol),
    }


def _about(protocol: Protocol | None, runs: Sequence[Run]) -> dict[str, Any]:
    sources = sorted({run.plan.about.get("source", "own") for run in runs})
    keys = ("title", "measures", "origin", "differences", "held_out", "use")
    published = None if protocol is None else protocol.tasks.published
    whole = protocol is not None and protocol.tasks.first is None and protocol.tasks.difficulties is None
    return {
        **{key: getattr(protocol, key, None) for key in keys},
        "source": sources[0],
        "published_tasks": published.n_tasks if published is not None and whole else None,
    }


def _failures(runs: Sequence[Run]) -> dict[str, Any]:
    """By band, how many trees failed and in how many of them each limit was met (a tree may count several times)."""
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        depth = _played(run)["budgets"]["depth"]
        for row in run.store.sql(_sql("evaluation_failures"), {**_key(run), "depth": depth}).pl().to_dicts():
            counts.setdefault(row.pop("band"), Counter()).update(row)
    return {band: dict(counts[band]) for band in sorted(counts, key=band_key)}


def _played(run: Run) -> dict[str, Any]:
    """The collect settings that a run was played with, as they were stored."""
    (found,) = run.store.sql(_sql("evaluation_config"), _key(run)).pl().to_dicts()
    body: dict[str, Any] = json.loads(found["config"])["collect"]
    return body


def _changed(run: Run, protocol: Protocol) -> list[str]:
    """Settings of the phase that differ from the protocol's, as `name value (protocol: value)`."""
    row = run.rows[0]
    phase = protocol.phase(seed=row["seed"], dialect=row["dialect"])
    named = dict(_leaves(settled_phase(phase, policy=row["policy"]).resolved()))
    played = dict(_leaves(_played(run)))
    return [
        f"{name} {played.get(name)} (protocol: {named.get(name)})"
        for name in sorted(named.keys() | played.keys())
        if played.get(name) != named.get(name) and not name.startswith("policy.")
    ]


def _leaves(body: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in body.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _key(run: Run) -> dict[str, Any]:
    return {"run_id": run.plan.run_id, "epoch": run.plan.epoch}


def _run(run: Run) -> dict[str, Any]:
    body = report(run.rows)
    return {
        **body,
        "store": str(run.store.path),
        "planned": run.planned(),
        "pending": run.planned() - len(run.rows),
        "sealed": run.plan.sealed(),
    }


def _overlap(runs: Sequence[Run], protocol: Protocol | None, train: Path | None) -> dict[str, Any] | None:
    training = training_tasks(train, protocol=protocol)
    if training is None:
        return None
    run = runs[0]
    rows = run.store.sql(_sql("evaluated_tasks"), _key(run)).pl().to_dicts()
    return overlap_of([_task(row) for row in rows], training)


def _task(row: Mapping[str, Any]) -> Task:
    return Task(**{**row, "spec": json.loads(row["spec"])})


def _place(store: Store, shard_id: str) -> Place:
    sealed = store.layout.epochs / shard_plan(shard_id)
    return (sealed if store.medium.published(sealed) else store.layout.shards / shard_id) / "evals.parquet"


def _sql(name: str) -> str:
    return files("collect").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
