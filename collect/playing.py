"""Playing units: many trees in flight on one event loop, one finished unit at a time handed over.

Invariant: a unit is handed over only when all its trees are done, with its results in planned order, so that what is
committed does not depend on which tree finished first; the first fault cancels every other tree.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from collect.dealing import WorkUnit
from collect.services import TreePlan, TreeResult

PlayTree = Callable[[TreePlan], Awaitable[TreeResult]]
HandOver = Callable[[WorkUnit, list[TreeResult]], Awaitable[None]]
T = TypeVar("T")
Admit = Callable[[int], Awaitable[bool]]


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
    units: AsyncIterable[tuple[WorkUnit, Sequence[TreePlan]]] | Sequence[tuple[WorkUnit, Sequence[TreePlan]]],
    *,
    play: PlayTree,
    hand_over: HandOver,
    concurrency: int,
    overlap: bool,
    admit: Admit | None = None,
) -> None:
    """Play all trees, at most `concurrency` at once; without `overlap` a unit waits for the one before it.

    units: all of them, or an iterator that is asked for the next one when there is room.
    admit: asked before a unit starts with the number of its trees; False: no further unit starts. Raises the first
    fault of a tree or of `hand_over`.
    """
    slots, handing = asyncio.Semaphore(concurrency), asyncio.Lock()

    async def one(flight: _UnitInFlight, index: int, plan: TreePlan) -> None:
        try:
            flight.results[index] = await play(plan)
            results = [result for result in flight.results if result is not None]
            if len(results) == len(flight.results):
                async with handing:
                    await hand_over(flight.unit, results)
                flight.results = []
                flight.done.set()
        finally:
            slots.release()  # a finished unit that waits for the store keeps its slot, so they cannot pile up

    try:
        async with asyncio.TaskGroup() as trees:
            async for unit, plans in each(units):
                if admit is not None and not await admit(len(plans)):
                    break
                flight = _UnitInFlight(unit, [None] * len(plans))
                for index, plan in enumerate(plans):
                    await slots.acquire()
                    trees.create_task(one(flight, index, plan))
                if not overlap:
                    await flight.done.wait()
                async with slots:  # the next unit is asked for only when a tree of it can start
                    pass
    except BaseExceptionGroup as faults:
        raise _first(faults) from None


async def aside(work: Callable[[], None]) -> None:
    """Run blocking work in a thread while the loop goes on; once begun it is waited for, cancelled or not."""
    done = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(done)
    except asyncio.CancelledError:
        if not done.cancelled():
            await done
        raise


async def each(items: AsyncIterable[T] | Sequence[T]) -> AsyncIterator[T]:
    """The items, whether they are all here or come one by one."""
    if isinstance(items, Sequence):
        for item in items:
            yield item
        return
    async for item in items:
        yield item


def _first(faults: BaseExceptionGroup[BaseException]) -> BaseException:
    fault: BaseException = faults
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault
