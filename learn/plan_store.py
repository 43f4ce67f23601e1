"""What an earlier run measured: use per tree, fodder per group, bytes, and the speed of its machine.

Invariant: read from the store alone; a figure that it does not hold is absent, never guessed. Means are over trees,
with two standard errors over tasks to either side, because trees of one task resemble each other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from learn.plan_use import Calls, Fodder, TreeUse
from learn.registered import query
from learn.spread import Spread
from sera_data.errors import UsageError
from sera_data.listing import Listing
from sera_data.store import Store

FIELDS = ("calls", "read", "fresh", "written", "stored")
WATCHED = ("world", "budgets", "sampling", "delegation", "rubric", "policy")
"""Settings of a collect phase that change what a tree uses."""


@dataclass(frozen=True, slots=True)
class CollectSpeed:
    """tokens: completion tokens per second and process while all slots are busy; edge: seconds of start and end."""

    tokens: Spread
    edge: Spread


@dataclass(frozen=True, slots=True)
class LearnSpeed:
    """tokens: per second of forward and backward; per_update and per_phase: seconds of everything else."""

    tokens: Spread
    per_update: Spread
    per_phase: Spread
    devices: int


@dataclass(frozen=True, slots=True)
class Measured:
    """All of it. bytes: (per turn, per epoch's files, per update). settings: of its collect phases, resolved."""

    use: dict[str, TreeUse] = field(default_factory=dict)
    fodder: dict[str, Fodder] = field(default_factory=dict)
    turn_bytes: Spread | None = None
    epoch_bytes: Spread | None = None
    collect: CollectSpeed | None = None
    learn: LearnSpeed | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def measure(store: Store) -> Measured:
    """Read a store; UsageError when it holds no sealed training epoch."""
    with store.connect(view="sealed") as connection:
        trees = connection.sql(query("plan_trees")).pl().to_dicts()
        updates = connection.sql(query("plan_updates")).pl().to_dicts()
        times = connection.sql(query("plan_times")).pl().to_dicts()
        configs = connection.sql(query("plan_configs")).pl().to_dicts()
        turns = sum(row["calls"] for row in trees if row["role"] not in ("agents", "judge"))
        per_turn, per_epoch = _bytes(connection, store.listing(view="sealed"), turns)
    if not trees:
        msg = f"store {store.path} has no sealed epoch with training groups to measure"
        raise UsageError(msg, hint="collect and seal a small epoch first, or leave --from out for stated figures")
    collected = [json.loads(row["config"]) for row in configs if row["phase"] == "collect"]
    settings: dict[str, Any] = collected[-1] if collected else {}
    return Measured(
        use=_use(trees),
        fodder=_fodder(updates, samples=settings.get("samples", 1)),
        turn_bytes=per_turn,
        epoch_bytes=per_epoch,
        collect=collect_speed([row for row in times if row["phase"] == "collect"]),
        learn=_learn_speed(updates, [row for row in times if row["phase"] == "learn"]),
        settings=settings,
    )


def differences(measured: Mapping[str, Any], planned: Mapping[str, Any]) -> list[str]:
    """Names of settings that change what a tree uses and that both have, with other values."""
    found: list[str] = []
    for group in WATCHED:
        if group in measured and group in planned:
            found += _apart(measured[group], planned[group], group)
    return [name for name in found if name not in ("world.tasks", "policy.model", "policy.options")]


def _apart(old: Any, new: Any, name: str) -> list[str]:
    if name.count(".") == 0 or (name == "policy.roles" and isinstance(old, dict) and isinstance(new, dict)):
        return [part for key in sorted({*old} & {*new}) for part in _apart(old[key], new[key], f"{name}.{key}")]
    return [] if old == new else [name]


def _use(rows: Sequence[Mapping[str, Any]]) -> dict[str, TreeUse]:
    found = {}
    for purpose in dict.fromkeys(row["purpose"] for row in rows):
        roles: dict[str, Calls] = {}
        agents = Spread.of(0.0)
        for role in dict.fromkeys(row["role"] for row in rows if row["purpose"] == purpose):
            mine = [row for row in rows if row["purpose"] == purpose and row["role"] == role]
            figures = [per_tree([row["n_trees"] for row in mine], [row[name] for row in mine]) for name in FIELDS]
            if role == "agents":
                agents = figures[0]
            else:
                roles[role] = Calls(*figures)
        found[purpose] = TreeUse(agents, roles)
    return found


def per_tree(trees: Sequence[int], sums: Sequence[float]) -> Spread:
    """Ratio of sums over tasks, and two standard errors (linearised, with its small-sample factor) to either side."""
    n, all_trees = len(trees), sum(trees)
    mean = sum(sums) / all_trees
    if n < 2:
        return Spread(0.5 * mean, mean, 2 * mean)
    squares = sum((s - mean * t) ** 2 for s, t in zip(sums, trees, strict=True))
    error = math.sqrt(squares * n / (n - 1)) / all_trees
    return Spread(max(0.0, mean - 2 * error), mean, mean + 2 * error)


def _fodder(rows: Sequence[Mapping[str, Any]], *, samples: int) -> dict[str, Fodder]:
    """Per tree of the groups that a stage took, the dropped ones too; a joint update has no stage of its own."""
    found = {}
    for row in rows:
        if row["groups"] and row["stage"] != "joint":
            n = row["groups"] * samples
            tokens, trained = row["tokens"] / n, row["trained"] / n
            wide = 2 / math.sqrt(row["groups"])
            found[row["stage"]] = Fodder(_around(tokens, wide), _around(trained, wide))
    return found


def _around(value: float, share: float) -> Spread:
    return Spread(max(0.0, value * (1 - share)), value, value * (1 + share))


def _bytes(connection: duckdb.DuckDBPyConnection, listing: Listing, turns: float) -> tuple[Spread, Spread]:
    """Bytes per turn of all tables together, and bytes that an epoch's files take whatever they hold: their footers."""
    files = [(str(path), size) for source in listing.sources for _, path, _, size in source.files]
    parameters = {"files": [path for path, _ in files]}
    footers = float((connection.execute(query("plan_footers"), parameters).fetchone() or (0,))[0])
    n_epochs = sum("." not in source.name for source in listing.sources)
    data = max(0.0, sum(size for _, size in files) - footers)
    return Spread.of(data / max(turns, 1.0)), Spread.of(footers / max(1, n_epochs))


def collect_speed(rows: Sequence[Mapping[str, Any]]) -> CollectSpeed | None:
    """Speed of the middle half of each phase, and the seconds that its start and end took beyond that speed."""
    timed = [row for row in rows if row["elapsed_s"] and row["middle_tokens"]]
    if not timed:
        return None
    speeds, edges = [], []
    for row in timed:
        speed = row["middle_tokens"] / (0.5 * row["elapsed_s"])
        speeds.append(speed / row["processes"])
        edges.append(max(0.0, row["elapsed_s"] - row["tokens"] / speed))
    return CollectSpeed(_range(speeds), _range(edges))


def _learn_speed(updates: Sequence[Mapping[str, Any]], phases: Sequence[Mapping[str, Any]]) -> LearnSpeed | None:
    busy, rest = sum(row["busy_s"] for row in updates), sum(row["rest_s"] for row in updates)
    n = sum(row["updates"] for row in updates)
    if not busy or not n or not phases:
        return None
    elapsed = sum(row["elapsed_s"] for row in phases)
    per_phase = max(0.0, elapsed - busy - rest) / len(phases)
    tokens = sum(row["tokens"] for row in updates)
    devices = max(1, max(row["accelerators"] for row in phases))
    return LearnSpeed(_around(tokens / busy, 0.15), _around(rest / n, 0.3), _around(per_phase, 0.3), devices)


def _range(values: Sequence[float]) -> Spread:
    """Least, mean and greatest of a few runs, at least 15 % to either side."""
    mean = sum(values) / len(values)
    return Spread(min(*values, 0.85 * mean), mean, max(*values, 1.15 * mean))
