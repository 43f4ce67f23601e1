"""The Dealer of a Ray job: which units are still to play, who plays which, and what is done.

Invariant: a unit is with at most one replica at a time; one that is lost with its replica goes to the front of the
queue; nobody is sent home while a unit that may yet be lost is in flight. It holds no rows: a unit is done when its
replica has committed it to the store.

Run: as a Ray actor without a processor of its own, made by `collect.ray_job`; without Ray it is an asyncio object.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Sequence

from collect.dealing import WorkUnit
from collect.services import RootSummary


class Dealer:
    """Queue of units, and the finished trees that the driver has not seen yet."""

    def __init__(self, units: Sequence[WorkUnit]) -> None:
        self._left = deque(units)
        self._taken: dict[str, tuple[str, WorkUnit]] = {}
        self._roots: list[RootSummary] = []
        self._closed = False
        self._moved = asyncio.Condition()

    async def take(self, replica: str) -> WorkUnit | None:
        """The next unit for a replica; None when all are done or the job stops. Waits while others are in flight."""
        async with self._moved:
            await self._moved.wait_for(lambda: self._closed or self._left or not self._taken_by_others(replica))
            if self._closed or not self._left:
                return None
            unit = self._left.popleft()
            self._taken[unit.unit_id] = (replica, unit)
            return unit

    async def done(self, unit_id: str) -> None:
        """The unit is committed."""
        async with self._moved:
            self._taken.pop(unit_id, None)
            self._moved.notify_all()

    async def lost(self, replica: str, committed: Collection[str] = ()) -> int:
        """A replica is gone: its units are dealt again, except those that it had committed; how many."""
        async with self._moved:
            gone = [unit for holder, unit in self._taken.values() if holder == replica]
            for unit in reversed(gone):
                del self._taken[unit.unit_id]
                if unit.unit_id not in committed:
                    self._left.appendleft(unit)
            self._moved.notify_all()
            return sum(unit.unit_id not in committed for unit in gone)

    async def close(self) -> None:
        """Deal nothing more and tell everybody who waits in `closed`."""
        async with self._moved:
            self._closed = True
            self._moved.notify_all()

    async def closed(self) -> None:
        """Return when the job is stopped."""
        async with self._moved:
            await self._moved.wait_for(lambda: self._closed)

    async def tree_done(self, root: RootSummary) -> None:
        """Note a finished tree for the driver's progress."""
        self._roots.append(root)

    async def news(self) -> list[RootSummary]:
        """Trees finished since this was asked last."""
        roots, self._roots = self._roots, []
        return roots

    def _taken_by_others(self, replica: str) -> bool:
        return any(holder != replica for holder, _ in self._taken.values())
