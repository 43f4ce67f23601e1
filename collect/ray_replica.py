"""One replica of a Ray job: a process with policies of its own that plays the units it asks for.

Invariant: it plays a unit exactly as `run_job` does alone, and commits it to the store itself, so what a unit's rows
are does not depend on who played it. Asked to stop it gives up its trees in flight; what it committed stays.

Run: as a Ray actor, made by `collect.ray_job`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from collect.config import CollectConfig
from collect.dealing import WorkUnit
from collect.interruption import Interruption
from collect.job import Job, run_job
from collect.policies import open_policies, policy_hash
from collect.policy import Identity, Policy
from collect.policy_config import PolicyConfig
from collect.progress import JobProgress
from collect.services import RootSummary, Style
from collect.spending import Limits
from schemas.words import Role, ShardPhase
from sera_data.config import Config
from sera_data.errors import SeraError


@dataclass(frozen=True, slots=True)
class Order:
    """What a replica is told to work on: everything of a Job, and how to play."""

    store: str
    plan: str
    config: CollectConfig
    identity: Config
    phase: ShardPhase
    units: tuple[WorkUnit, ...]
    style: Style
    limits: Limits | None = None


class Replica:
    """Opens its policies, then works until nothing is left. `name` tells the dealer who asks."""

    def __init__(self, name: str, policy: PolicyConfig, roles: tuple[Role, ...]) -> None:
        self.name, self.policy, self.roles = name, policy, roles
        self.policies: Mapping[Role, Policy] = {}

    def open(self) -> tuple[int, dict[Role, Identity]]:
        """Load the policies; process id, and who serves which role."""
        self.policies = open_policies(self.policy, roles=self.roles)
        return os.getpid(), {role: policy.identity for role, policy in self.policies.items()}

    def work(self, order: Order, dealer: Any) -> str | None:
        """Play units until the dealer has none; how a limit ended it, if one did. Closes the policies."""
        import sera_data
        from sera_data.plan import read_plan

        store = sera_data.open(order.store)
        plan = read_plan(store, order.plan)
        if not self.policies:
            self.open()
        found = policy_hash(self.policies)
        if found != plan.policy_hash:
            msg = f"{self.name} opened another policy ({found[:16]}) than plan {plan.name} names"
            raise SeraError(msg, hint="all nodes of the cluster must see the same policy directory and code")
        job = Job(order.config, order.identity, plan.run_id, order.phase, plan, order.units)
        with Interruption().active() as interruption:
            threading.Thread(target=_stops_with, args=(dealer,), name="stop", daemon=True).start()
            work = run_job(
                store,
                job,
                policies=self.policies,
                style=order.style,
                source=DealtUnits(dealer, self.name),
                progress=ReportedProgress(dealer),
                interruption=interruption,
                limits=order.limits,
            )
        return work.stopped


class DealtUnits:
    """Units from the dealer, one by one."""

    def __init__(self, dealer: Any, replica: str) -> None:
        self.dealer, self.replica = dealer, replica

    async def __aiter__(self) -> AsyncIterator[WorkUnit]:
        while (unit := await self.dealer.take.remote(self.replica)) is not None:
            yield unit

    def committed(self, unit: WorkUnit) -> None:
        """Tell the dealer; it need not answer."""
        self.dealer.done.remote(unit.unit_id)


class ReportedProgress(JobProgress):
    """Shows nothing here, the driver has the one bar."""

    def __init__(self, dealer: Any) -> None:
        super().__init__(0, label="replica", quiet=True)
        self.dealer = dealer

    def tree_done(self, root: RootSummary) -> None:
        """Pass it on."""
        self.dealer.tree_done.remote(root)


def _stops_with(dealer: Any) -> None:
    """Turn the end of the job into the signal that the collector knows; ends with the process otherwise."""
    import ray

    with contextlib.suppress(ray.exceptions.RayError):  # the dealer is gone, and so is who waits for the units
        ray.get(dealer.closed.remote())
    os.kill(os.getpid(), signal.SIGTERM)
