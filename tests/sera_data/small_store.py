"""A small valid store, made by hand and the same every time, for tests of every package.

What is in it, per epoch: `tasks` tasks with `samples` trees each. A tree is that of `small_tree`: with the defaults it
has 1 + 8 + 2 nodes, 3 of them factual, and 3 delegations.

Use: ``store = small_store(tmp_path / "store")`` (sealed), or ``unit_rows(...)`` for the rows of one unit to change
before writing them with ``write_unit``. Run-id, policy hash and so on are the constants below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sera_data as sd
from schemas import SCHEMA_VERSION
from sera_data.canonical import sha256_json, sha256_text
from tests.sera_data.small_tree import POLICY, Rows, tree_rows

RUN = "small-00000000"
POLICY_HASH = "b" * 64
CONFIG_HASH = "c" * 64
PURPOSES = ("execution", "delegation", "rubric")


def small_store(
    path: Path,
    *,
    epochs: int = 1,
    tasks: int = 2,
    samples: int = 2,
    k: int = 8,
    tokens: bool = True,
    sealed: bool = True,
    run_id: str = RUN,
) -> sd.Store:
    """A store of `epochs` epochs, one unit per task, committed and (by default) sealed."""
    store = sd.create(path)
    for epoch in range(epochs):
        write_epoch(
            store, tasks=tasks, samples=samples, k=k, tokens=tokens, sealed=sealed, run_id=run_id, version=epoch
        )
    return store


def write_epoch(
    store: sd.Store,
    *,
    tasks: int = 2,
    samples: int = 2,
    k: int = 8,
    tokens: bool = True,
    sealed: bool = True,
    run_id: str = RUN,
    version: int = 0,
) -> sd.Plan:
    """Claim the next epoch, commit one unit per task, seal it if wanted."""
    units = [{"unit_id": f"u{i:04d}", "purpose": PURPOSES[i % 3]} for i in range(tasks)]
    plan = sd.claim_plan(
        store,
        run_id=run_id,
        phase="collect",
        policy_hash=POLICY_HASH,
        config_hash=sha256_json([CONFIG_HASH, version]),
        units=units,
    )
    for index, unit in enumerate(plan.units):
        rows = unit_rows(
            task_id(index),
            epoch=plan.epoch,
            samples=samples,
            k=k,
            tokens=tokens,
            run_id=run_id,
            purpose=unit["purpose"],
            version=version,
        )
        write_unit(store, plan, unit["unit_id"], rows)
    if sealed:
        sd.seal(store, plan.name)
    return plan


def write_unit(store: sd.Store, plan: sd.Plan, unit_id: str, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Any:
    """Commit rows as one unit; returns the CommitResult."""
    with sd.ShardWriter(store, plan, unit_id) as writer:
        for table, table_rows in rows.items():
            writer.extend(table, table_rows)
        return writer.commit()


def unit_rows(
    task: str,
    *,
    epoch: int = 0,
    samples: int = 2,
    k: int = 8,
    tokens: bool = True,
    run_id: str = RUN,
    purpose: str = "execution",
    version: int = 0,
) -> Rows:
    """Rows of one unit: one task with all its samples, and the runs row."""
    rows: Rows = {"runs": [run_row()], "tasks": [task_row(task)]}
    for sample in range(samples):
        tree = tree_rows(task, sample, epoch=epoch, k=k, tokens=tokens, run_id=run_id, purpose=purpose, version=version)
        for table, table_rows in tree.items():
            rows.setdefault(table, []).extend(table_rows)
    return rows


def task_id(index: int) -> str:
    """Id of the index-th task."""
    return "t" + sha256_text(f"task {index}")[:16]


def run_row(*, phase: str = "collect") -> dict[str, Any]:
    """The row of `runs` that every shard needs."""
    policy = {"role": "act", "name": POLICY, "engine": "test", "version": 0}
    return {
        "phase": phase,
        "schema_version": SCHEMA_VERSION,
        "code_version": "test",
        "config": "{}",
        "config_hash": CONFIG_HASH,
        "policies": [policy],
    }


def task_row(task: str, *, difficulty: str = "easy") -> dict[str, Any]:
    """A row of `tasks`."""
    return {
        "task_id": task,
        "world": "textcraft",
        "profile": "strict",
        "split": "train",
        "difficulty": difficulty,
        "family": None,
        "seed": 1,
        "goal": "craft 1x m2_i3",
        "spec": "{}",
    }
