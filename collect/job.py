"""The Job: claim a plan, play the units that are not committed, commit each as one shard.

Invariant: what a unit plays depends only on config, task set, epoch and policy, so any process may play it, killed at
any moment and started again, alone or beside others, and the store ends up the same. Nothing of a unit is visible
before all of it is.

Run: ``sera collect --config configs/textcraft_scripted.yaml --store runs/store``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, Protocol

from collect.config import CollectConfig
from collect.dealing import WorkUnit, deal, draw_tasks, lay_out, resolve_counts, share, task_set_hash
from collect.dialect import dialect_for
from collect.epoch_plan import claim_epoch
from collect.garbage import rare_collections
from collect.interruption import Interruption
from collect.labels import served_by
from collect.lost_trees import LostTrees
from collect.metering import metered, metered_judge, require_prices
from collect.phase_judge import open_phase_judge, require_phase_judge
from collect.playing import HandOver, aside, each, play_units, tree_plans
from collect.policies import policy_hash, policy_rows
from collect.policy import Identified, Policy
from collect.progress import JobProgress
from collect.services import Services, Style, TreePlan, TreeResult
from collect.shard import Provenance, commit_unit, unit_rows
from collect.spending import Amount, LimitReached, Limits, Spending, amount_of, spent_before
from collect.tree import run_tree
from collect.world import Task
from collect.worlds import open_world
from schemas.words import Role, ShardPhase
from sera_data.config import Config, run_id
from sera_data.errors import StoreError
from sera_data.plan import Plan
from sera_data.store import Store

MAX_WAIT_S = 30.0
ExtraRows = Callable[[WorkUnit, Sequence[TreeResult]], Mapping[str, list[dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of the units this process plays: `index` of `of`."""

    index: int = 0
    of: int = 1


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed collect phase. `identity` is the configuration whose hash names the run."""

    config: CollectConfig
    identity: Config
    run_id: str
    phase: ShardPhase
    plan: Plan
    units: tuple[WorkUnit, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """What one process did: units committed by it now, and units that were committed before.

    stopped: how a limit ended it before all was played, None when none did.
    """

    committed: tuple[str, ...]
    skipped: tuple[str, ...]
    complete: bool
    stopped: str | None = None


class UnitSource(Protocol):
    """Hands out the units of a job one by one, to several processes."""

    def __aiter__(self) -> AsyncIterator[WorkUnit]:
        """The units of this process, as they are given out."""

    def committed(self, unit: WorkUnit) -> None:
        """Hear that a unit is in the store."""


def claim_job(
    store: Store,
    config: CollectConfig,
    *,
    tasks: Sequence[Task],
    policies: Mapping[Role, Identified],
    identity: Config | None = None,
    phase: ShardPhase = "collect",
    epoch: int | None = None,
) -> Job:
    """Claim the next epoch, or find this run's unsealed plan, and deal the tasks to its units.

    epoch: the one that this must be; sealed by this run already, nothing of it is left to play.
    """
    require_phase_judge(config)  # a judge that is not there is told before a plan is claimed
    identity = identity or config
    counts = resolve_counts(config.groups.counts(), n_tasks=len(tasks))
    slots = lay_out(counts, groups_per_unit=config.groups_per_unit)
    task_set = task_set_hash(tasks)
    units = [
        {
            "unit_id": slot.unit_id,
            "purpose": slot.purpose,
            "n_groups": slot.n_groups,
            "n_samples": config.samples,
            "task_set": task_set,
        }
        for slot in slots
    ]
    plan = claim_epoch(
        store,
        epoch,
        run_id=run_id(config.name, identity),
        phase=phase,
        policy_hash=policy_hash(policies),
        config_hash=identity.hash(),
        units=units,
    )
    if list(plan.units) != units:
        msg = f"plan {plan.name} of run {plan.run_id} was made from other tasks than those given now"
        raise StoreError(
            msg, hint=f"give the same tasks, or close it: sera data seal {store.path} {plan.name} --partial"
        )
    epoch = 0 if phase == "eval" else plan.epoch  # evaluations draw the same tasks in every epoch
    drawn = draw_tasks(tasks, sum(counts.values()), seed=config.seed, epoch=epoch)
    dealt = deal(slots, drawn, n_samples=config.samples)
    return Job(config, identity, plan.run_id, phase, plan, dealt)


def run_job(
    store: Store,
    job: Job,
    *,
    policies: Mapping[Role, Policy],
    style: Style,
    part: Share | None = None,
    source: UnitSource | None = None,
    progress: JobProgress | None = None,
    interruption: Interruption | None = None,
    extra_rows: ExtraRows | None = None,
    lost: Literal["refuse", "hold"] = "refuse",
    limits: Limits | None = None,
    quiet: bool = False,
) -> Work:
    """Play and commit this process's units; a stop keeps what is committed. Closes the policies.

    source: gives the units one by one instead of `part`. progress: shows the trees, instead of a bar of its own.
    limits: what the run may spend, by the prices in it; every process counts what is committed when it starts.
    lost: `refuse` counts trees lost to infrastructure by unit and stops at a unit that lost too many; `hold` keeps
    units with a lost tree back until all are played and counts over all of them.
    """
    part = part or Share()
    mine = share(job.units, index=part.index, of=part.of)
    before = job.plan.committed()
    todo = [unit for unit in mine if unit.unit_id not in before]
    services, served, spending = _services(store, job, policies, style=style, limits=limits, before=before)
    provenance = Provenance(identity=job.identity, phase=job.phase, policies=served, started_at=datetime.now(UTC))
    held = LostTrees(_n_trees(mine), limit=job.config.infra_error_limit) if lost == "hold" else None
    commits = _Commits(store, job, provenance, held, spending, limits is not None, extra_rows, source)
    with (
        progress or JobProgress(_n_trees(todo), label=f"{job.phase} {job.plan.name}", quiet=quiet) as shown,
        suppress(LimitReached),  # trees in flight are given up; Work.stopped tells it
        rare_collections(),
    ):
        asyncio.run(_play(job, source or todo, services, commits.take, shown, interruption or Interruption(), spending))
    commits.release()
    return Work(
        committed=tuple(commits.units),
        skipped=tuple(unit.unit_id for unit in mine if unit.unit_id in before),
        complete=job.plan.committed() == set(job.plan.unit_ids),
        stopped=spending.message() if spending.stopped_by else None,
    )


@dataclass(slots=True)
class _Commits:
    """Where finished units go. held: keeps those with a lost tree until all are played; None: they are committed, or
    refused when they lost too many. A commit is made beside the trees in flight, so that neither disk nor network
    keeps the engine waiting, except under `deterministic`."""

    store: Store
    job: Job
    provenance: Provenance
    held: LostTrees | None
    spending: Spending
    counted: bool
    extra_rows: ExtraRows | None
    source: UnitSource | None
    units: list[str] = field(default_factory=list)

    async def take(self, unit: WorkUnit, results: list[TreeResult]) -> None:
        """A unit whose trees are all played."""
        self.spending.finish(_n_trees([unit]), amount_of(unit_rows(results)) if self.counted else Amount())
        if self.held is not None and self.held.holds(unit, results):
            return
        if self.job.config.deterministic:
            self._commit(unit, results)
        else:
            await aside(partial(self._commit, unit, results))

    def release(self) -> None:
        """All are played: what was held back is committed."""
        for unit, results in self.held.released() if self.held else ():
            self._commit(unit, results)

    def _commit(self, unit: WorkUnit, results: list[TreeResult]) -> None:
        commit_unit(
            self.store,
            self.job.plan,
            unit,
            results,
            provenance=self.provenance,
            extra=self.extra_rows(unit, results) if self.extra_rows else {},
            infra_error_limit=1.0 if self.held else self.job.config.infra_error_limit,
        )
        self.units.append(unit.unit_id)
        if self.source is not None:
            self.source.committed(unit)


def _services(
    store: Store,
    job: Job,
    policies: Mapping[Role, Policy],
    *,
    style: Style,
    limits: Limits | None,
    before: Collection[str],
) -> tuple[Services, list[dict[str, Any]], Spending]:
    """What trees are played with, metered where there are limits; who serves them; and the meter."""
    config = job.config
    world = open_world(config.world.name, profile=config.world.profile)
    judge = open_phase_judge(config, policies)
    served = [*policy_rows(policies), *served_by(judge.labeller if judge else None)]
    spending = _spending(store, job, limits, served, before)
    services = Services(
        world=world,
        policies=metered(policies, spending) if limits else policies,
        settings=config.tree_settings(),
        style=style,
        dialect=dialect_for(world, config.dialect),
        judge=metered_judge(judge, spending) if limits else judge,
    )
    return services, served, spending


def _spending(
    store: Store, job: Job, limits: Limits | None, served: Sequence[Mapping[str, Any]], before: Collection[str]
) -> Spending:
    """The meter of this process; refuses hosted models without a price before anything is called."""
    if limits is None:
        return Spending(Limits())
    require_prices(limits, {(row["role"], row["name"]): row["engine"] for row in served})
    weight = _n_trees([unit for unit in job.units if unit.unit_id in before])
    return Spending(limits, before=spent_before(store, job.run_id, epochs=[job.plan.epoch]), weight=weight)


def _n_trees(units: Sequence[WorkUnit]) -> int:
    return sum(group.n_samples for unit in units for group in unit.groups)


async def _play(
    job: Job,
    todo: Sequence[WorkUnit] | UnitSource,
    services: Services,
    hand_over: HandOver,
    progress: JobProgress,
    interruption: Interruption,
    spending: Spending,
) -> None:
    async def play(plan: TreePlan) -> TreeResult:
        result = await _tree(plan, services, retries=job.config.tree_retries)
        progress.tree_done(result.root)
        return result

    async def units() -> AsyncIterator[tuple[WorkUnit, list[TreePlan]]]:
        async for unit in each(todo):
            yield unit, tree_plans(unit, run_id=job.run_id, epoch=job.plan.epoch, seed=job.config.seed)

    try:
        with interruption.cancels_current_task():
            await play_units(
                units(),
                play=play,
                hand_over=hand_over,
                concurrency=job.config.concurrency,
                overlap=not job.config.deterministic,
                admit=spending.admit,
            )
    finally:
        for policy in {id(policy): policy for policy in services.policies.values()}.values():
            await policy.close()
        if services.judge is not None:
            await services.judge.labeller.close()


async def _tree(plan: TreePlan, services: Services, *, retries: int) -> TreeResult:
    """One tree; lost to infrastructure it is played again from the start, with the same seeds."""
    wait_s = services.settings.budgets.retry_wait_s
    tries = 1
    while True:
        result = await run_tree(plan, services)
        if result.root.outcome != "infra_error" or tries > retries:
            return replace(result, root=replace(result.root, tries=tries))
        await asyncio.sleep(min(MAX_WAIT_S, wait_s * 2.0**tries))
        tries += 1
