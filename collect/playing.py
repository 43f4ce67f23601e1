"""Playing units: many trees in flight on one event loop, one finished unit at a time handed over.

Invariant: a unit is handed over only when all its trees are done, with its results in planned order, so that what is
committed does not depend on which tree finished first; the first fault cancels every other tree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from collect.dealing import WorkUnit
from collect.services import TreePlan, TreeResult

PlayTree = Callable[[TreePlan], Awaitable[TreeResult]]
HandOver = Callable[[WorkUnit, list[TreeResult]], None]


@dataclass(slots=True)
class _UnitInFlight:
    unit: WorkUnit
    results: list[TreeResult | None]
    done: asyncio.Event = field(default_factory=asyncio.Event)


def tree_plans(unit: WorkUnit, *, run_id: str, epoch: int, seed: int) -> list[TreePlan]:
    """The trees of a unit, group by group, sample by sample."""
    return [
        TreePlan(run_id=run_id, epoch=epoch, task=group.task, sample=sample, purpose=group.purpose, seed=seed)
        for group in unit.groups
        for sample in range(group.n_samples)
    ]


async def play_units(
    units: Sequence[tuple[WorkUnit, Sequence[TreePlan]]],
    *,
    play: PlayTree,
    hand_over: HandOver,
    concurrency: int,
    overlap: bool,
) -> None:
    """Play all trees, at most `concurrency` at once; without `overlap` a unit waits for the one before it.

    Raises the first fault of a tree or of `hand_over`.
    """
    slots = asyncio.Semaphore(concurrency)

    async def one(flight: _UnitInFlight, index: int, plan: TreePlan) -> None:
        try:
            flight.results[index] = await play(plan)
        finally:
            slots.release()
        results = [result for result in flight.results if result is not None]
        if len(results) == len(flight.results):
            hand_over(flight.unit, results)
            flight.results = []
            flight.done.set()

    try:
        async with asyncio.TaskGroup() as trees:
            for unit, plans in units:
                flight = _UnitInFlight(unit, [None] * len(plans))
                for index, plan in enumerate(plans):
                    await slots.acquire()
                    trees.create_task(one(flight, index, plan))
                if not overlap:
                    await flight.done.wait()
    except BaseExceptionGroup as faults:
        raise _first(faults) from None


def _first(faults: BaseExceptionGroup[BaseException]) -> BaseException:
    fault: BaseException = faults
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault
