"""One learn phase: snapshot -> credit -> batches -> updates by the schedule -> export -> `updates` rows, sealed.

Invariant: the phase reads only what its snapshot names, never memory of the collectors. Killed at any moment and
started again by the same command it ends with the same weights and rows: the plan, the snapshot, the checkpoints, the
policy directory and the shard are each found where they were left. A stage without a usable group is recorded with its
reason and ends the phase; the clock, which is the policy version, does not move.

Run: ``sera learn --store runs/store --method sera --from POLICY --out runs/learn``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

import sera_data
from collect.policy_directory import read_policy_directory
from learn.checkpoint import State, save
from learn.config import LearnConfig
from learn.datum import Datum
from learn.engine import Engine, half_precision
from learn.epochs import choose_epoch
from learn.export import export_policy, policy_path
from learn.feed import Feed, Meal, rules_sha256, where_of
from learn.filters import filters_sha256
from learn.given_logprobs import require_run
from learn.lora import merged, write_adapter
from learn.objective import objective_of
from learn.packing import Plan as PackingPlan
from learn.packing import plan_packs
from learn.ranks import Ranks
from learn.record import (
    UNIT,
    Phase,
    Result,
    commit_updates,
    finished_plan,
    fruitless,
    identity,
    read_result,
)
from learn.reference import StartWeights
from learn.refreshed import require_refresh
from learn.resume import resume
from learn.rule import Method
from learn.stopping import Stopping
from learn.stores import added, further_stores, require_different_trees
from schemas import TABLES
from schemas.table import FLOAT64
from sera_data.damage import require_sound
from sera_data.errors import StoreError
from sera_data.plan import Plan, read_plan
from sera_data.snapshot import Snapshot, read_snapshot
from sera_data.store import Store

EMPTY = PackingPlan((), 1)
MEASURES = [c.name for c in TABLES["updates"].columns if c.nullable and c.type == FLOAT64]


def learn_phase(
    phase: Phase,
    *,
    ranks: Ranks,
    on_row: Callable[[dict[str, Any]], None] = lambda row: None,
    stopping: Stopping | None = None,
) -> Result:
    """Run or finish a phase; `on_row` sees every new `updates` row on the first rank.

    Asked to stop, it ends between two updates with a checkpoint and raises the stop's error.
    """
    stopping = stopping or Stopping(ranks)
    with stopping.of_phase():
        return _learn_phase(phase, ranks, on_row, stopping)


def _learn_phase(phase: Phase, ranks: Ranks, on_row: Callable[[dict[str, Any]], None], stopping: Stopping) -> Result:
    _require_same_rules(phase)
    done = finished_plan(phase)
    if done is not None:
        return read_result(phase, done)
    started = datetime.now(UTC)
    if ranks.first:
        _snapshot(phase)
    ranks.barrier()
    snapshot = _snapshot(phase)
    connection = phase.store.connect(view="sealed", snapshot=snapshot.name, files="own")
    try:
        if ranks.first:
            require_sound(connection)  # a flipped bit may read as another number: nothing is trained from one
        engine, state = train(phase, connection, snapshot, ranks, on_row, stopping)
    finally:
        connection.close()
    policy = export(phase, engine, state, ranks)
    plan = ""
    if ranks.first:  # claimed only now, so that a phase that is refused leaves no open plan behind
        done = finished_plan(phase)  # by a process with another --out
        plan = done.name if done else commit_updates(phase, _claim(phase), state, started)
    ranks.barrier()
    return Result(phase.run_id, phase.epoch, state.version, policy, state.rows, plan, fruitless(phase))


def open_phase(
    store: Store, *, config: LearnConfig, method: Method, policy: Path, out: Path, epoch: int | None
) -> Phase:
    """Check the start policy and find the epoch: the newest sealed collect epoch unless one is named."""
    chosen = choose_epoch(store, epoch)
    require_refresh(store, config.refresh, chosen)
    require_run(store, config.logprobs, chosen)
    return Phase(store, config, method, read_policy_directory(policy), out, chosen)


def _claim(phase: Phase) -> Plan:
    name, config_hash, policy_hash = identity(phase)
    return sera_data.claim_addition(
        phase.store,
        phase.epoch,
        run_id=name,
        phase="learn",
        config_hash=config_hash,
        policy_hash=policy_hash,
        units=[{"unit_id": UNIT, "method": phase.method.name, "version": phase.parent.version}],
    )


def snapshot_name(phase: Phase) -> str:
    """Name of the snapshot that a phase takes."""
    return f"{phase.run_id}-v{phase.parent.version:06d}-e{phase.epoch:06d}"


def phase_hashes(phase: Phase) -> dict[str, str | None]:
    """What a snapshot fixes besides the directories: how it was collected and is trained, by what rules, from whom."""
    where, filtered = where_of(phase.config), filters_sha256(phase.config, phase.parent.version)
    return {
        **({"filter_hash": filtered} if filtered else {}),
        **({"logprobs": phase.config.logprobs} if phase.config.logprobs else {}),
        "collect_hash": read_plan(phase.store, f"e{phase.epoch:06d}").config_hash,
        "where_hash": None if where is None else where.sha256,
        "config_hash": phase.config.hash(),
        "credit_hash": rules_sha256(phase.method),
        "policy_hash": phase.parent.sha256,
        "weights_hash": phase.parent.weights_sha256,
    }


def _require_same_rules(phase: Phase) -> None:
    """A phase of this name that began with other credit rules or another policy is not this one."""
    name, hashes = snapshot_name(phase), phase_hashes(phase)
    if not (phase.store.layout.snapshots / f"{name}.json").exists():
        return
    found = read_snapshot(phase.store, name).hashes
    if found != hashes:
        changed = sorted(key.removesuffix("_hash") for key in hashes if found.get(key) != hashes[key])
        msg = f"snapshot {name} was taken by a phase with another {' and '.join(changed)}, so this is not that phase"
        raise StoreError(msg, hint="give this one a name of its own, for example --set name=again, and another --out")


def _snapshot(phase: Phase) -> Snapshot:
    """The phase's snapshot: the epoch with the labels and refreshes sealed so far; as it was on a restart."""
    name = snapshot_name(phase)
    if (phase.store.layout.snapshots / f"{name}.json").exists():
        return read_snapshot(phase.store, name)
    directories = [f"e{phase.epoch:06d}", *added(phase.store, phase.epoch)]
    others = further_stores(phase.config.stores)
    return sera_data.take_snapshot(phase.store, name, directories=directories, others=others, **phase_hashes(phase))


def train(
    phase: Phase,
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    ranks: Ranks,
    on_row: Callable[[dict[str, Any]], None],
    stopping: Stopping,
) -> tuple[Engine | None, State]:
    """All updates of a phase from its snapshot: the engine, None when nothing was trained, and the end state."""
    if snapshot.others:
        require_different_trees(connection)
    feed = Feed(
        connection,
        config=phase.config,
        method=phase.method,
        epoch=phase.epoch,
        start=phase.parent.version,
        tokenizer_sha256=phase.parent.tokenizer_sha256,
        policy=phase.parent.path,
    )
    ranks.require_same(feed.credit.sha256, what="the credit of the snapshot")
    config = phase.config
    engine: Engine | None = None
    state = _start(phase, snapshot)
    if not feed.starts_empty():  # an engine takes seconds to load
        engine, state = resume(phase.parent, out=phase.out, config=config, ranks=ranks, start=state)
    with stopping.of_updates():
        state = _updates(phase, engine, feed, state, on_row, stopping)
    return engine, state


def _updates(
    phase: Phase,
    engine: Engine | None,
    feed: Feed,
    state: State,
    on_row: Callable[[dict[str, Any]], None],
    stopping: Stopping,
) -> State:
    """The updates that are left, with their checkpoints; the stop's error where all ranks agree to stop."""
    config, root, saved = phase.config, phase.out / "checkpoints", state.cursor
    place, half = stopping.ranks.device, half_precision(phase.config.engine, stopping.ranks.device)
    start = StartWeights(phase.parent.path, version=phase.parent.version, config=config, place=place, half=half)

    def checkpoint() -> None:
        nonlocal saved
        if engine is not None and saved != state.cursor:
            save(root, engine, state, keep=config.engine.keep_checkpoints)
            saved = state.cursor

    while not state.finished:
        if stopping.agreed():
            checkpoint()
            raise stopping.error(updates=state.cursor, checkpoint=root if state.cursor else None)
        state, row = _one_update(engine, feed, config, state, start)
        if stopping.ranks.first:
            on_row(row)
        if state.finished or state.cursor % config.engine.checkpoint_every == 0:
            checkpoint()
    return state


def _start(phase: Phase, snapshot: Snapshot) -> State:
    return State(
        run_id=phase.run_id,
        epoch=phase.epoch,
        version=phase.parent.version,
        cursor=0,
        finished=False,
        policy_sha256=phase.parent.sha256,
        tokenizer_sha256=phase.parent.tokenizer_sha256,
        snapshot_sha256=snapshot.sha256,
    )


def _one_update(
    engine: Engine | None, feed: Feed, config: LearnConfig, state: State, start: StartWeights
) -> tuple[State, dict[str, Any]]:
    started = time.perf_counter()
    meal = feed.next(version=state.version, done=state.cursor, consumed=state.consumed)
    plan = EMPTY
    if engine:
        budget = config.engine.budget(engine.ranks.device.type, max(map(len, meal.datums), default=0))
        share = config.engine.share_prefixes
        plan = plan_packs(meal.datums, budget=budget, world_size=engine.ranks.size, share=share)
    loaded = time.perf_counter() - started
    row = _row(meal, config, state) | _sizes(plan, meal.datums) | {"snapshot_sha256": state.snapshot_sha256}
    if engine is not None and meal.datums:
        loss, objective = config.loss, objective_of(config, meal.stage, state.version)
        engine.ranks.require_same(plan.sha256, what="the packing plan")
        frozen, scale = start.wanted(meal.stage, meal.datums), loss.scale(meal.stage)
        row |= engine.update(plan, objective, version=state.version, lr_scale=scale, start=frozen)
        if row["skip_reason"]:  # the entropy floor, or no effective samples
            row |= _sizes(EMPTY, [])
        else:
            row["version_out"] = state.version + 1
            row["timings"] = {**row["timings"], "load_s": loaded, "total_s": time.perf_counter() - started}
    cursor = state.cursor + 1
    state = replace(
        state,
        version=row["version_out"],
        cursor=cursor,
        finished=meal.exhausted or bool(row["skip_reason"] and meal.datums) or cursor >= config.updates_per_collect,
        consumed=state.consumed | {stage: state.consumed.get(stage, 0) + n for stage, n in meal.taken.items()},
        rows=[*state.rows, row],
    )
    return state, row


def _sizes(plan: PackingPlan, datums: Sequence[Datum]) -> dict[str, Any]:
    """What an update computes; an empty plan for one that changes nothing."""
    return {
        "datum_ids": plan.datum_ids,
        "n_datums": len(datums),
        "n_tokens": sum(map(len, datums)),
        "n_trained_tokens": plan.n_trained,
        "n_computed_tokens": plan.n_computed,  # no column: the plan says it again
        "plan_sha256": plan.sha256,
    }


def _row(meal: Meal, config: LearnConfig, state: State) -> dict[str, Any]:
    return {
        "update": state.version,
        "attempt": sum(row["update"] == state.version for row in state.rows),
        "stage": "joint" if meal.joint else meal.stage,
        "method": config.method,
        "loss_kind": config.loss.kind,
        "version_in": state.version,
        "version_out": state.version,
        "skip_reason": meal.skip_reason,
        "group_ids": list(meal.groups),
        "n_groups_dropped": meal.n_dropped,
        **dict.fromkeys(MEASURES),
        "credit_sha256": meal.credit_sha256,
        "timings": None,
    }


def export(phase: Phase, engine: Engine | None, state: State, ranks: Ranks) -> Path:
    """The policy directory that a phase ends with; its start policy when nothing was trained."""
    if engine is None or state.version == phase.parent.version:
        return phase.parent.path
    tensors, lora = engine.tensors(), phase.config.lora
    if ranks.first:
        export_policy(
            phase.out,
            weights=tensors if lora is None else merged(tensors, lora.scale),
            tied=engine.tied,
            parent=phase.parent,
            version=state.version,
            run_id=phase.run_id,
        )
        if lora is not None:
            target = phase.out / "adapters" / f"v{state.version:06d}"
            write_adapter(target, tensors, lora, base=state.lora["base"])
    ranks.barrier()
    return policy_path(phase.out, state.version)
