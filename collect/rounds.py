"""Whose turn it is among agents that run in parallel: first come, first served, one turn each.

Invariant: at most one seat holds the turn, and a seat that gives it up queues behind all that wait, so that agents of
a tree act round-robin in the order in which they started, whatever their policies' latencies are.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Rounds:
    """The queue of one tree."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._held = False

    def seat(self) -> Seat:
        """A place for one more agent."""
        return Seat(self)

    async def acquire(self) -> None:
        """Wait for the turn; agents that are about to start get into the queue before a free turn is given away."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if not self._held:
            self._held = True
            loop.call_soon(self.release)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Hand the turn to the one that has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._held = False


class Seat:
    """One agent's place: `take` waits for the turn unless it is held, `give` hands it on."""

    __slots__ = ("_held", "_rounds")

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._held = False

    async def take(self) -> None:
        """Return when it is this agent's turn."""
        if not self._held:
            await self._rounds.acquire()
            self._held = True

    def give(self) -> None:
        """Let the next agent act; nothing happens when the turn is not held."""
        if self._held:
            self._held = False
            self._rounds.release()
