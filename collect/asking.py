"""Ask a policy for one completion: retry infrastructure faults, keep to the deadline.

Invariant: an infrastructure fault is never turned into a reply; cancellation passes through.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from collect.budget import Deadline
from collect.policy import Completion, Policy, PolicyError, Request
from collect.settings import Budgets
from collect.surrogates import mended

LONGEST_WAIT_S = 60.0
"""Before a retry, however many there were."""


class InfrastructureFault(Exception):
    """Policy or world failed; the node ends as infra_error, its tree is kept and never trained."""


class OutOfTime(Exception):
    """The deadline came while a completion was awaited."""


async def ask(policy: Policy, request: Request, *, budgets: Budgets, deadline: Deadline) -> Completion:
    """One completion that ended with stop or length.

    Raises InfrastructureFault after the retries of `budgets`, OutOfTime when the deadline comes first.
    """
    fault, tries = "", f" ({budgets.retries + 1} tries)"
    for attempt in range(budgets.retries + 1):
        if attempt and budgets.retry_wait_s:
            await asyncio.sleep(min(LONGEST_WAIT_S, budgets.retry_wait_s * 2.0 ** (attempt - 1)))
        try:
            completion = await _within(policy, request, deadline)
        except PolicyError as error:
            fault = str(error) or type(error).__name__
            if error.lasting:  # it says itself how often it tried
                tries = ""
                break
            continue
        if completion.finish_reason in ("stop", "length"):
            return replace(completion, text=mended(completion.text))
        fault = f"completion ended with {completion.finish_reason}"
    call = f"policy {policy.identity.name!r}, {request.role} call {request.session}"
    msg = f"{call}: {fault}{tries}"
    raise InfrastructureFault(msg)


async def _within(policy: Policy, request: Request, deadline: Deadline) -> Completion:
    remaining = deadline.remaining()
    if remaining is None:
        return await policy.complete(request)
    try:
        async with asyncio.timeout(remaining) as limit:
            return await policy.complete(request)
    except TimeoutError as error:
        if limit.expired():
            raise OutOfTime from error
        msg = f"timeout of the policy: {error}"
        raise PolicyError(msg) from error
