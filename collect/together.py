"""Run coroutines of one tree concurrently.

Invariant: all have ended when this returns; the first fault cancels the rest and is raised as itself, so that a
SeraError reaches the user as one line and not inside a group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any


async def together(work: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Await all of `work`; started in the order given."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in work:
                group.create_task(coroutine)
    except BaseExceptionGroup as faults:
        raise faults.exceptions[0] from None
