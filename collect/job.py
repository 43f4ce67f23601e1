"""The Job: claim a plan, play the units that are not committed, commit each as one shard.

Invariant: what a unit plays depends only on config, task set, epoch and policy, so any process may play it, killed at
any moment and started again, alone or beside others, and the store ends up the same. Nothing of a unit is visible
before all of it is.

Run: ``sera collect --config configs/textcraft_scripted.yaml --store runs/store``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from collect.config import CollectConfig
from collect.dealing import WorkUnit, deal, draw_tasks, lay_out, resolve_counts, share, task_set_hash
from collect.dialect import dialect_for
from collect.interruption import Interruption
from collect.labels import open_inline_judge, served_by
from collect.lost_trees import LostTrees
from collect.playing import play_units, tree_plans
from collect.policies import policy_hash, policy_rows
from collect.policy import Policy
from collect.progress import JobProgress
from collect.services import Services, Style, TreePlan, TreeResult
from collect.shard import Provenance, commit_unit
from collect.tree import run_tree
from collect.world import Task
from collect.worlds import open_world
from schemas.words import Role, ShardPhase
from sera_data import claim_plan
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
    """What one process did: units committed by it now, and units that were committed before."""

    committed: tuple[str, ...]
    skipped: tuple[str, ...]
    complete: bool


def claim_job(
    store: Store,
    config: CollectConfig,
    *,
    tasks: Sequence[Task],
    policies: Mapping[Role, Policy],
    identity: Config | None = None,
    phase: ShardPhase = "collect",
) -> Job:
    """Claim the next epoch, or find this run's unsealed plan, and deal the tasks to its units."""
    open_inline_judge(config.judge)  # a judge that is not there is told before a plan is claimed
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
    plan = claim_plan(
        store,
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
    interruption: Interruption | None = None,
    extra_rows: ExtraRows | None = None,
    lost: Literal["refuse", "hold"] = "refuse",
    quiet: bool = False,
) -> Work:
    """Play and commit this process's units; a stop keeps what is committed. Closes the policies.

    lost: `refuse` counts trees lost to infrastructure by unit and stops at a unit that lost too many; `hold` keeps
    units with a lost tree back until all are played and counts over all of them.
    """
    part = part or Share()
    mine = share(job.units, index=part.index, of=part.of)
    before = job.plan.committed()
    todo = [unit for unit in mine if unit.unit_id not in before]
    config = job.config
    world = open_world(config.world.name, profile=config.world.profile)
    services = Services(
        world=world,
        policies=policies,
        settings=config.tree_settings(),
        style=style,
        dialect=dialect_for(world, config.dialect),
        judge=open_inline_judge(config.judge),
    )
    served = [*policy_rows(policies), *served_by(services.judge.labeller if services.judge else None)]
    provenance = Provenance(identity=job.identity, phase=job.phase, policies=served, started_at=datetime.now(UTC))
    committed: list[str] = []
    held = LostTrees(_n_trees(mine), limit=config.infra_error_limit)

    def commit(unit: WorkUnit, results: list[TreeResult]) -> None:
        extra = extra_rows(unit, results) if extra_rows else {}
        commit_unit(
            store,
            job.plan,
            unit,
            results,
            provenance=provenance,
            extra=extra,
            infra_error_limit=config.infra_error_limit if lost == "refuse" else 1.0,
        )
        committed.append(unit.unit_id)

    def hand_over(unit: WorkUnit, results: list[TreeResult]) -> None:
        if lost == "refuse" or not held.holds(unit, results):
            commit(unit, results)

    with JobProgress(_n_trees(todo), label=f"{job.phase} {job.plan.name}", quiet=quiet) as progress:
        asyncio.run(_play(job, todo, services, hand_over, progress, interruption or Interruption()))
    for unit, results in held.released():
        commit(unit, results)
    return Work(
        committed=tuple(committed),
        skipped=tuple(unit.unit_id for unit in mine if unit.unit_id in before),
        complete=job.plan.committed() == set(job.plan.unit_ids),
    )


def _n_trees(units: Sequence[WorkUnit]) -> int:
    return sum(group.n_samples for unit in units for group in unit.groups)


async def _play(
    job: Job,
    todo: Sequence[WorkUnit],
    services: Services,
    hand_over: Callable[[WorkUnit, list[TreeResult]], None],
    progress: JobProgress,
    interruption: Interruption,
) -> None:
    async def play(plan: TreePlan) -> TreeResult:
        result = await _tree(plan, services, retries=job.config.tree_retries)
        progress.tree_done(result.root)
        return result

    units = [(unit, tree_plans(unit, run_id=job.run_id, epoch=job.plan.epoch, seed=job.config.seed)) for unit in todo]
    try:
        with interruption.cancels_current_task():
            await play_units(
                units,
                play=play,
                hand_over=hand_over,
                concurrency=job.config.concurrency,
                overlap=not job.config.deterministic,
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
