"""Judging stored branches again: claim an addition, write and score unit by unit, commit each as one shard, seal.

Invariant: a unit is visible when all of it is there, so a run that was killed at any moment is continued by the same
command, alone or beside others; a unit that lost too many calls to a failing policy is never committed. A few trees are
in memory at a time, whatever the store holds.

Run: ``sera refresh rubrics STORE --policy DIR --k 4``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from collect.addition import claim_additions, owed_units, own_additions, seal_complete
from collect.interruption import Interruption
from collect.job import Share
from collect.policies import policy_hash, policy_rows
from collect.policy import Policy
from collect.progress_display import ProgressDisplay
from collect.refresh_config import RefreshConfig
from collect.refresh_selection import select_delegations
from collect.refresh_trees import Judged, Shelf, judge_again
from collect.reselect import played_with
from collect.shard import InfrastructureError, Provenance, runs_row
from collect.together import together
from schemas.words import Role
from sera_data import ShardWriter
from sera_data.plan import Plan
from sera_data.store import Store

LOST_LIMIT = 0.5


@dataclass(slots=True)
class RefreshSummary:
    """What one process did."""

    run_id: str
    plans: list[str] = field(default_factory=list)
    sealed: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def count(self, judged: Judged) -> None:
        """Add one delegation."""
        self.counts["delegations"] += 1
        for name, rows in (("rubrics", judged.rubrics), ("scores", judged.scores)):
            self.counts[name] += len(rows)
            self.counts[f"invalid_{name}"] += sum(not row["valid"] for row in rows)
        self.counts["prompt_tokens"] += sum(row["n_prompt"] or 0 for row in judged.turns)
        self.counts["completion_tokens"] += sum(len(row["completion_ids"] or ()) for row in judged.turns)


def run_refresh(
    store: Store,
    config: RefreshConfig,
    policies: Mapping[Role, Policy],
    *,
    part: Share | None = None,
    interruption: Interruption | None = None,
    quiet: bool = False,
) -> RefreshSummary:
    """Judge what is owed under `config`; a stop keeps the committed units. Closes the policies."""
    job = _Job(store, config, policies, part or Share(), quiet=quiet)
    asyncio.run(job.run(interruption or Interruption()))
    return job.summary


class _Job:
    def __init__(
        self, store: Store, config: RefreshConfig, policies: Mapping[Role, Policy], part: Share, *, quiet: bool
    ) -> None:
        self.store, self.config, self.policies, self.part, self.quiet = store, config, policies, part, quiet
        self.summary = RefreshSummary(config.run_id)
        self.slots = asyncio.Semaphore(config.concurrency)

    async def run(self, interruption: Interruption) -> None:
        try:
            with interruption.cancels_current_task():
                for plan in own_additions(self.store, self.config, "open"):
                    await self._finish(plan)
                for plan in self._claim():
                    await self._finish(plan)
        finally:
            for policy in {id(policy): policy for policy in self.policies.values()}.values():
                await policy.close()

    def _claim(self) -> list[Plan]:
        selection = select_delegations(self.store, self.config, self.policies["scorer"])
        served = policy_hash(self.policies)
        return claim_additions(
            self.store, selection.units, settings=self.config, phase="refresh", policy_hash=lambda epoch: served
        )

    async def _finish(self, plan: Plan) -> None:
        """Judge what is missing of a plan and seal it when all its units are there."""
        if plan.name not in self.summary.plans:
            self.summary.plans.append(plan.name)
        units = owed_units(plan, self.part)
        provenance = Provenance(
            identity=self.config, phase="refresh", policies=policy_rows(self.policies), started_at=datetime.now(UTC)
        )
        connection = self.store.connect(epochs=[plan.epoch])
        shelf = Shelf(connection, config=self.config, policies=self.policies, phases=played_with(self.store))
        total = sum(len(unit["delegations"]) for unit in units)
        try:
            with ProgressDisplay(total, label=f"refresh {plan.name}", unit="delegations", quiet=self.quiet) as progress:
                await self._units(plan, units, shelf, provenance, progress)
        finally:
            connection.close()
        if seal_complete(plan):
            self.summary.sealed.append(plan.name)

    async def _units(
        self,
        plan: Plan,
        units: Sequence[Mapping[str, Any]],
        shelf: Shelf,
        provenance: Provenance,
        progress: ProgressDisplay,
    ) -> None:
        """Two units at a time: while the slow calls of one end, the next one has begun."""
        gate = asyncio.Semaphore(2)

        async def one(unit: Mapping[str, Any]) -> None:
            async with gate:
                judged = await self._unit(unit, shelf, progress)
                _commit(self.store, plan, unit["unit_id"], judged, provenance)

        await together(one(unit) for unit in units)

    async def _unit(self, unit: Mapping[str, Any], shelf: Shelf, progress: ProgressDisplay) -> list[Judged]:
        trees = shelf.trees(sorted({tree for tree, _ in unit["delegations"]}))
        found: list[Judged | None] = [None] * len(unit["delegations"])

        async def one(place: int, tree: str, delegation: str) -> None:
            async with self.slots:
                judged = found[place] = await judge_again(trees[tree], delegation, self.config)
            self.summary.count(judged)
            note = f"{self.summary.counts['rubrics']} rubrics  {self.summary.counts['scores']} scores"
            progress.advance(note)
            progress.line(self.summary.counts["delegations"], note)

        await together(one(place, tree, name) for place, (tree, name) in enumerate(unit["delegations"]))
        return [judged for judged in found if judged is not None]


def _commit(store: Store, plan: Plan, unit_id: str, judged: Sequence[Judged], provenance: Provenance) -> None:
    calls, lost = sum(len(each.turns) for each in judged), sum(each.lost for each in judged)
    if lost > LOST_LIMIT * calls:
        errors = [row["error"] for each in judged for row in each.turns if row["finish_reason"] == "error"]
        msg = f"unit {unit_id} of {plan.name}: {lost} of {calls} calls were lost; the last one: {errors[-1]}"
        raise InfrastructureError(
            msg, hint="mend the policy's engine and run the same command: the unit is asked again"
        )
    with ShardWriter(store, plan, unit_id) as writer:
        writer.add("runs", runs_row(provenance))
        for each in judged:
            writer.extend("turns", each.turns)
            writer.extend("rubrics", each.rubrics)
            writer.extend("scores", each.scores)
        writer.commit()
