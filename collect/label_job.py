"""Adding labels to stored nodes: claim an addition, give its votes unit by unit, commit each as one shard, seal.

Invariant: a plan names every vote that it gives, so a run that was killed at any moment is continued by the same
command, alone or beside others, and a vote is never given twice; nothing else of the store changes.

Run: ``sera label STORE --judge openai:MODEL@URL``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from collect.addition import claim_additions, owed_units, own_additions, seal_complete
from collect.interruption import Interruption
from collect.job import Share
from collect.label_config import LabelConfig
from collect.label_progress import LabelProgress
from collect.label_selection import label_plans, planned_keys, query, select
from collect.label_subjects import SUBJECT_QUERIES, load_subjects
from collect.labels import Labeller, LabellerRefused, label_row, served_by
from collect.metering import MeteredLabeller, require_prices
from collect.playing import Admit
from collect.records import Row
from collect.shard import Provenance, runs_row
from collect.spending import LimitReached, Limits, Spending, amount_of, spent_before
from collect.subject import Subject
from sera_data import ShardWriter
from sera_data.plan import Plan
from sera_data.store import Store

if TYPE_CHECKING:
    import duckdb

Key = tuple[str, str, str, int]
HandOver = Callable[[Mapping[str, Any], list[Row]], None]


@dataclass(slots=True)
class LabelSummary:
    """What one process did; `labels` counts rows by verdict: success, failure, invalid.

    cost: of these votes, None without prices. stopped: how a limit ended it, None when none did.
    """

    run_id: str
    plans: list[str] = field(default_factory=list)
    sealed: list[str] = field(default_factory=list)
    labels: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    stopped: str | None = None

    def count(self, row: Row) -> None:
        """Add one label."""
        verdict = {1.0: "success", 0.0: "failure"}.get(row["value"], "invalid")
        self.labels[verdict] += 1
        self.prompt_tokens += row["prompt_tokens"] or 0
        self.completion_tokens += row["completion_tokens"] or 0
        if row["cost"] is not None:
            self.cost = (self.cost or 0.0) + row["cost"]
        if verdict == "invalid":
            self.reasons[row["error"][:120]] += 1


def run_labels(
    store: Store,
    config: LabelConfig,
    labeller: Labeller,
    *,
    part: Share | None = None,
    interruption: Interruption | None = None,
    limits: Limits | None = None,
    quiet: bool = False,
) -> LabelSummary:
    """Give every vote that is missing under `config`; a stop keeps the committed units. Closes the labeller.

    limits: what the run may spend; every process counts what is committed when it starts. Raises LabellerRefused when
    the labeller cannot work at all; the unit it happened in is not committed.
    """
    summary = LabelSummary(config.run_id)
    interruption = interruption or Interruption()
    spending = Spending(Limits())
    if limits is not None:
        require_prices(limits, {(row["role"], row["name"]): row["engine"] for row in served_by(labeller)})
        before = spent_before(store, summary.run_id)
        spending = Spending(limits, before=before, weight=before.labels)
        labeller = MeteredLabeller(labeller, spending)
    with suppress(LimitReached):  # votes in flight are given up; the summary tells it
        asyncio.run(_run(store, config, labeller, part or Share(), interruption, summary, spending, quiet=quiet))
    summary.stopped = spending.message() if spending.stopped_by else None
    return summary


def open_elsewhere(store: Store, config: LabelConfig) -> list[str]:
    """Unfinished label plans of other settings; what they will give is not given twice."""
    return [f"{p.name} of {p.run_id}" for p in label_plans(store, "open") if p.config_hash != config.identity()]


async def _run(
    store: Store,
    config: LabelConfig,
    labeller: Labeller,
    part: Share,
    interruption: Interruption,
    summary: LabelSummary,
    spending: Spending,
    *,
    quiet: bool,
) -> None:
    async def finish(plans: Sequence[Plan]) -> None:
        for plan in plans:
            if spending.stopped_by is None:
                await _finish(store, plan, config, labeller, part, summary, spending, quiet=quiet)

    try:
        with interruption.cancels_current_task():
            await finish(own_additions(store, config, "open"))
            if spending.stopped_by is None:
                await finish(_claim(store, config, labeller))
    finally:
        await labeller.close()


def _claim(store: Store, config: LabelConfig, labeller: Labeller) -> list[Plan]:
    return claim_additions(store, select(store, config, labeller).units, settings=config, phase="label")


async def _finish(
    store: Store,
    plan: Plan,
    config: LabelConfig,
    labeller: Labeller,
    part: Share,
    summary: LabelSummary,
    spending: Spending,
    *,
    quiet: bool,
) -> None:
    """Give what is missing of a plan's votes and seal it when all its units are there."""
    if plan.name not in summary.plans:
        summary.plans.append(plan.name)
    units = owed_units(plan, part)
    earlier = [p for p in label_plans(store, "all", epoch=plan.epoch) if (p.addition or 0) < (plan.addition or 0)]
    taken = planned_keys(earlier)  # of a plan that was claimed at the same moment for some of the same nodes
    provenance = Provenance(identity=config, phase="label", policies=served_by(labeller), started_at=datetime.now(UTC))

    def hand_over(unit: Mapping[str, Any], rows: list[Row]) -> None:
        spending.finish(_n_votes(unit), amount_of({"labels": rows}))
        with ShardWriter(store, plan, unit["unit_id"]) as writer:
            writer.add("runs", runs_row(provenance))
            writer.extend("labels", rows)
            writer.commit()

    votes = sum(map(_n_votes, units))
    con = store.connect(epochs=[plan.epoch], queries=[query(name) for name in SUBJECT_QUERIES])
    try:
        with LabelProgress(votes, label=f"label {plan.name}", quiet=quiet) as progress:

            def seen(row: Row) -> None:
                summary.count(row)
                progress.label_done(row)

            await _units(units, con, labeller, taken=taken, seen=seen, hand_over=hand_over, admit=spending.admit)
    finally:
        con.close()
    if seal_complete(plan):
        summary.sealed.append(plan.name)


async def _units(
    units: Sequence[Mapping[str, Any]],
    con: duckdb.DuckDBPyConnection,
    labeller: Labeller,
    *,
    taken: set[Key],
    seen: Callable[[Row], None],
    hand_over: HandOver,
    admit: Admit,
) -> None:
    """All votes of all units, at most `labeller.concurrency` in flight; a unit is handed over when all are given.

    admit: asked before a unit starts with the number of its votes; False: no further unit starts.
    """
    slots = asyncio.Semaphore(labeller.concurrency)

    async def one(unit: Mapping[str, Any], rows: list[Row | None], place: int, subject: Subject, attempt: int) -> None:
        try:
            row = await _vote(labeller, unit, subject, attempt)
        finally:
            slots.release()
        rows[place] = row
        seen(row)
        done = [row for row in rows if row is not None]
        if len(done) == len(rows):
            hand_over(unit, done)

    try:
        async with asyncio.TaskGroup() as votes:
            for unit in units:
                if not await admit(_n_votes(unit)):
                    break
                todo = [
                    (node, attempt)
                    for node, first, count in unit["votes"]
                    for attempt in range(first, first + count)
                    if (node, unit["source"], unit["version"], attempt) not in taken
                ]
                subjects = load_subjects(con, [node for node, _, _ in unit["votes"]])
                rows: list[Row | None] = [None] * len(todo)
                if not todo:
                    hand_over(unit, [])
                for place, (node, attempt) in enumerate(todo):
                    await slots.acquire()
                    votes.create_task(one(unit, rows, place, subjects[node], attempt))
    except BaseExceptionGroup as faults:
        raise _first(faults) from None


def _n_votes(unit: Mapping[str, Any]) -> int:
    return sum(count for _, _, count in unit["votes"])


async def _vote(labeller: Labeller, unit: Mapping[str, Any], subject: Subject, attempt: int) -> Row:
    opinion = await labeller.label(subject, attempt=attempt)
    row = label_row(
        opinion,
        node_id=subject.node_id,
        signature=(unit["source"], unit["version"]),
        kind=labeller.kind,
        attempt=attempt,
        use=unit["use"],
        inclusion_probability=unit["inclusion_probability"],
    )
    return {**row, "tree_id": subject.tree_id, "task_id": subject.task_id}


def _first(faults: BaseExceptionGroup[BaseException]) -> BaseException:
    """The fault to report: a refusal or a limit before the cancellations that follow from it."""
    flat: list[BaseException] = []
    queue: list[BaseException] = [faults]
    while queue:
        fault = queue.pop(0)
        if isinstance(fault, BaseExceptionGroup):
            queue.extend(fault.exceptions)
        else:
            flat.append(fault)
    return next((fault for fault in flat if isinstance(fault, LabellerRefused | LimitReached)), flat[0])
