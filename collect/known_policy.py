"""A policy with a known success rate, to check an evaluation from end to end: it fails every n-th task, by number.

Invariant: on tasks that the delegating oracle solves, success is exactly the share of tasks whose number n does not
divide, whatever the seed, sample or shard. The number of a task is the last number of its published id, else its own id
read as hexadecimal.

Use: ``sera eval run --protocol textcraft-632 --policy known:3 --set 'tasks.difficulties=[easy]' --store runs/check``
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from collect.policy import Completion, Identity, Request
from collect.scripted import open_policy as open_scripted
from collect.world import Task
from sera_data.errors import UsageError

ORACLE = "delegating_oracle"


class KnownPolicy:
    """The delegating oracle, except for roots of tasks whose number `every` divides: there it gives up at once."""

    renderer = None
    trainable = False

    def __init__(self, every: int) -> None:
        self.every = every
        self.identity = Identity(name=f"known:{every}", engine="known", version=0)
        self._oracle = open_scripted(ORACLE, options={})

    async def complete(self, request: Request) -> Completion:
        """Give up, or answer as the oracle does."""
        task = request.facts.get("task")
        if request.role == "act" and task is not None and task_number(task) % self.every == 0:
            text = request.facts["dialect"].write("finish", {"message": "failed"})
            return Completion(text, None, None, "stop", "none", policy_version=0)
        return await self._oracle.complete(request)

    def release(self, session: str) -> None:
        """Forget a session."""
        self._oracle.release(session)

    async def close(self) -> None:
        """Forget all."""
        await self._oracle.close()


def task_number(task: Task) -> int:
    """Last number of the published id, or the task's own id as a number."""
    numbers = re.findall(r"\d+", task.upstream_id or "")
    return int(numbers[-1]) if numbers else int(task.task_id.removeprefix("t"), 16)


def open_policy(argument: str, *, options: Mapping[str, Any]) -> KnownPolicy:
    """`known:3` fails every third task."""
    if not argument.isdigit() or int(argument) < 2:
        msg = f"known:N wants a whole number from 2, got {argument!r}"
        raise UsageError(msg, hint="known:3 fails every third task")
    if options:
        msg = f"policy 'known' takes no options, got {', '.join(options)}"
        raise UsageError(msg)
    return KnownPolicy(int(argument))
