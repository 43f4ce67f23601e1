"""Checks of a stored evaluation before it is continued or reported: whole files, and only rows of its own.

Invariant: a figure is computed only from files with the recorded bytes whose rows belong to the plan, task by task;
anything else is refused with the path of the file. Reads the `evals` files only; `sera data verify` reads everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sera_data.canonical import sha256_file
from sera_data.errors import StoreError
from sera_data.layout import COMMIT, shard_plan
from sera_data.place import Place
from sera_data.plan import Plan, plan_names, read_plan

if TYPE_CHECKING:
    from sera_data.store import Store

TABLE = "evals"
SAME = ("protocol", "protocol_sha256", "code_version", "task_set", "seed", "policy", "policy_version", "weights_sha256")
"""Columns that all rows of an evaluation share."""


def check_evaluation(store: Store, plan: Plan) -> None:
    """StoreError with the path of the first file that is damaged or holds rows of another evaluation."""
    for path, size, digest in _files(store, plan):
        hint = f"restore it from a copy, or remove {path.parent} while it is no seal and run the evaluation again"
        if not path.exists() or path.stat().st_size != size or sha256_file(path) != digest:
            msg = f"{path} is damaged: its bytes are not those recorded when it was committed"
            raise StoreError(msg, hint=hint)
        fault = _foreign(path, plan)
        if fault:
            msg = f"{path} does not belong to evaluation {plan.run_id}: {fault}"
            raise StoreError(msg, hint="move it out of the store; 'sera data verify STORE' names what else is wrong")


def eval_plans(store: Store) -> list[Plan]:
    """Plans of evaluations, oldest first."""
    plans = (read_plan(store, name) for name in plan_names(store))
    return [plan for plan in plans if plan.phase == "eval"]


def _files(store: Store, plan: Plan) -> Iterator[tuple[Place, int, str]]:
    """(path, bytes, sha256) of the plan's `evals` files."""
    if plan.sealed():
        for entry in store.seal_document(plan.name)["tables"][TABLE]["files"]:
            if entry["rows"]:
                yield store.layout.epochs / plan.name / entry["path"], entry["bytes"], entry["sha256"]
        return
    for shard in store.shard_ids():
        if shard_plan(shard) != plan.name:
            continue
        body = store.commit_document(shard)
        _check_commit(store, plan, shard, body)
        entry = body["files"].get(TABLE)
        if entry is None:
            msg = f"{store.layout.shards / shard} has no {TABLE} file, so it is no unit of evaluation {plan.run_id}"
            raise StoreError(msg, hint="move it out of the store and run the evaluation again")
        yield store.layout.shards / shard / entry["path"], entry["bytes"], entry["sha256"]


def _check_commit(store: Store, plan: Plan, shard: str, body: Mapping[str, Any]) -> None:
    for key, wanted in (("shard_id", shard), ("run_id", plan.run_id), ("config_hash", plan.config_hash)):
        if body.get(key) != wanted:
            path = store.layout.shards / shard / COMMIT
            msg = f"{path} is foreign: its {key} is {body.get(key)!r}, evaluation {plan.run_id} has {wanted!r}"
            raise StoreError(msg, hint=f"move {path.parent} out of the store and run the evaluation again")


def _foreign(path: Place, plan: Plan) -> str | None:
    """What is wrong with the rows of a file, or None."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as handle:
            rows = pq.ParquetFile(handle).read().to_pylist()
    except (pa.ArrowException, OSError) as error:
        return f"it is not readable Parquet: {' '.join(str(error).split())}"
    tasks = {plan.shard_id(unit["unit_id"]): unit.get("task_id") for unit in plan.units}
    samples = {plan.shard_id(unit["unit_id"]): unit.get("n_samples") for unit in plan.units}
    stamp = plan.about.get("evaluation", {})
    counts: dict[str, set[int]] = {}
    for row in rows:
        if row["run_id"] != plan.run_id or row["epoch"] != plan.epoch:
            return f"a row is of run {row['run_id']}, epoch {row['epoch']}"
        if row["shard_id"] not in tasks:
            return f"a row is of shard {row['shard_id']}, which the plan does not have"
        task = tasks[row["shard_id"]]
        if task is not None and row["task_id"] != task:
            return f"shard {row['shard_id']} holds task {row['task_id']}, the plan gives it {task}"
        for key in SAME:
            if key in stamp and row.get(key) != stamp[key]:
                return f"the row of task {row['task_id']} has {key} {row.get(key)!r}, the plan {stamp[key]!r}"
        counts.setdefault(row["shard_id"], set()).add(row["sample"])
    for shard, found in counts.items():
        if tasks[shard] is not None and found != set(range(samples[shard] or 0)):
            return f"shard {shard} holds samples {sorted(found)}, the plan wants {samples[shard]}"
    return None
