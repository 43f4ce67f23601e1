"""A collect phase on Ray: one actor per replica of the policies, units handed out to whoever is free.

Invariant: the store ends up as one process would have left it: a unit depends on nothing but config, tasks, epoch and
policy, and is committed exactly once by whoever played it. A lost replica is started again a limited number of times
and its units are played by others meanwhile. The driver loads no model; it shows the one progress bar and hears the
signals: a stop ends all replicas, and what they committed stays.

Run: ``sera collect ... --ray --ray-actors 4``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from collect.config import CollectConfig
from collect.dealing import WorkUnit
from collect.interruption import SIGNALS, Interrupted, Interruption
from collect.job import Job, Work, claim_job
from collect.policy import Identity
from collect.policy_config import PolicyConfig
from collect.progress import JobProgress
from collect.ray_dealer import Dealer
from collect.ray_replica import Order, Replica
from collect.services import Style
from collect.spending import Limits
from collect.world import Task
from schemas.words import Role
from sera_data.errors import Preempted, SeraError, UsageError
from sera_data.store import Store

POLL_S = 0.2
GOODBYE_S = 20.0
"""How long a stop waits for the replicas to give up their trees before it ends them."""


class LostReplicaError(SeraError):
    """A replica died more often than it may be started again."""


@dataclass(frozen=True, slots=True)
class RayOptions:
    """Where and how many. `address`: of a running cluster, None = one of this machine's own, made and ended with the
    job; `gpus` and `cpus` of each replica, `gpus` None = 1 where the cluster has any; `restarts` of each replica."""

    replicas: int = 1
    address: str | None = None
    cpus: float = 1.0
    gpus: float | None = None
    restarts: int = 3


@dataclass(slots=True)
class Seat:
    """A place for a replica: the actor that holds it now and what it is working on."""

    number: int
    actor: Any
    opening: Any = None
    pid: int = 0
    starts: int = 1
    work: Any = None
    end: Literal["working", "done"] = "working"

    @property
    def name(self) -> str:
        """Who the actor in it is, to the dealer."""
        return f"replica {self.number}.{self.starts}"


@dataclass(slots=True)
class RayJob:
    """A running job; `on_progress` is called with it whenever trees have finished."""

    store: Store
    config: CollectConfig
    policy: PolicyConfig
    options: RayOptions
    style: Style
    limits: Limits | None = None
    on_progress: Callable[[RayJob], None] = lambda job: None
    seats: list[Seat] = field(default_factory=list)
    dealer: Any = None
    restarts: int = 0
    stopped: str | None = None

    def run(
        self, tasks: Sequence[Task], *, epoch: int | None, interruption: Interruption, quiet: bool = False
    ) -> tuple[Job, Work]:
        """Claim the plan, play all units of it that are not committed."""
        self.seats = [Seat(number, None) for number in range(self.options.replicas)]
        for seat in self.seats:
            self._start(seat)
        served = self._opened(self.seats[0])
        job = claim_job(self.store, self.config, tasks=tasks, policies=served, epoch=epoch)
        before = job.plan.committed()
        todo = [unit for unit in job.units if unit.unit_id not in before]
        if todo:
            self._play(job, todo, interruption, quiet=quiet)
        after = job.plan.committed()
        return job, Work(
            committed=tuple(unit.unit_id for unit in todo if unit.unit_id in after),
            skipped=tuple(unit.unit_id for unit in job.units if unit.unit_id in before),
            complete=after == set(job.plan.unit_ids),
            stopped=self.stopped,
        )

    def _play(self, job: Job, todo: Sequence[WorkUnit], interruption: Interruption, *, quiet: bool) -> None:
        import ray

        self.dealer = ray.remote(num_cpus=0)(Dealer).remote(todo)
        order = Order(
            str(self.store.path.resolve()),
            job.plan.name,
            job.config,
            job.identity,
            job.phase,
            job.units,
            self.style,
            self.limits,
        )
        shared = ray.put(order)
        for seat in self.seats:
            seat.work = seat.actor.work.remote(shared, self.dealer)
        n_trees = sum(group.n_samples for unit in todo for group in unit.groups)
        label = f"{job.phase} {job.plan.name} on {len(self.seats)} replicas"
        with JobProgress(n_trees, label=label, quiet=quiet) as progress, interruption.between_steps():
            while any(seat.end == "working" for seat in self.seats):
                if interruption.error is not None:
                    self._say_goodbye()
                    raise interruption.error
                self._step(shared, job, progress)
            self._show_news(progress)

    def _step(self, shared: Any, job: Job, progress: JobProgress) -> None:
        """Wait a little; take in what has finished, replace who is lost."""
        import ray

        waiting = {seat.work: seat for seat in self.seats if seat.end == "working"}
        ready, _ = ray.wait(list(waiting), timeout=POLL_S)
        self._note_processes()
        self._show_news(progress)
        for work in ready:
            seat = waiting[work]
            try:
                self.stopped = ray.get(work) or self.stopped
                seat.end = "done"
                self.dealer.lost.remote(seat.name, job.plan.committed())  # a limit may leave it units that it took
            except (ray.exceptions.RayActorError, ray.exceptions.NodeDiedError) as error:
                self._replace(seat, shared, job, progress, error)
            except ray.exceptions.RayTaskError as error:
                cause = _cause(error)
                if not isinstance(cause, (Preempted, Interrupted)):
                    raise cause from None
                self._replace(seat, shared, job, progress, cause)  # its node is being taken away

    def _replace(self, seat: Seat, shared: Any, job: Job, progress: JobProgress, error: Exception) -> None:
        import ray

        ray.kill(seat.actor)  # it may live on where only its node was out of reach
        again = ray.get(self.dealer.lost.remote(seat.name, job.plan.committed()))
        progress.say(f"{seat.name} (process {seat.pid}) is lost; {again} of its units are played again")
        self.restarts += 1
        if seat.starts > self.options.restarts:
            self._say_goodbye()
            reason = " ".join(str(error).split())[:300]
            msg = f"{seat.name} was lost and replica {seat.number} was started {seat.starts} times already: {reason}"
            hint = "committed units are kept; mend the cause (memory? driver?), then the same command goes on"
            raise LostReplicaError(msg, hint=hint)
        seat.starts += 1
        self._start(seat)
        seat.work = seat.actor.work.remote(shared, self.dealer)

    def _start(self, seat: Seat) -> None:
        import ray

        gpus = self.options.gpus
        if gpus is None:
            gpus = 1.0 if ray.cluster_resources().get("GPU") else 0.0
        actor = ray.remote(num_cpus=self.options.cpus, num_gpus=gpus, max_restarts=0)(Replica)
        seat.pid = 0
        seat.actor = actor.remote(seat.name, self.policy, self.config.roles())
        seat.opening = seat.actor.open.remote()

    def _opened(self, seat: Seat) -> dict[Role, _Named]:
        """Who serves which role there; a policy that cannot be opened is the same fault as without Ray."""
        import ray

        try:
            seat.pid, identities = ray.get(seat.opening)
        except (ray.exceptions.RayTaskError, ray.exceptions.RayActorError) as error:
            raise _cause(error) from None
        return {role: _Named(identity) for role, identity in identities.items()}

    def _note_processes(self) -> None:
        """Process ids of replicas that have opened their policies meanwhile; nobody waits for them."""
        import ray

        for seat in self.seats:
            if not seat.pid and ray.wait([seat.opening], timeout=0)[0]:
                with contextlib.suppress(ray.exceptions.RayError):  # its work ends with the same fault
                    seat.pid, _ = ray.get(seat.opening)

    def _show_news(self, progress: JobProgress) -> None:
        import ray

        roots = ray.get(self.dealer.news.remote())
        for root in roots:
            progress.tree_done(root)
        if roots:
            self.on_progress(self)

    def _say_goodbye(self) -> None:
        """Let every replica stop by itself, then end who has not."""
        import ray

        ray.get(self.dealer.close.remote(), timeout=GOODBYE_S)
        working = [seat.work for seat in self.seats if seat.end == "working"]
        ray.wait(working, num_returns=len(working), timeout=GOODBYE_S)
        for seat in self.seats:
            ray.kill(seat.actor)


@dataclass(frozen=True, slots=True)
class _Named:
    """What the driver knows of a policy that another process serves."""

    identity: Identity


def _cause(error: Exception) -> Exception:
    """The error that was raised in the actor, where it is one of ours; otherwise its last line."""
    found: BaseException | None = error
    while found is not None:
        inner = getattr(found, "cause", None)
        if isinstance(inner, SeraError):
            return inner
        found = inner if isinstance(inner, BaseException) else found.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()]
    return SeraError(f"a replica failed: {lines[-1].strip() if lines else type(error).__name__}")


@contextlib.contextmanager
def cluster(options: RayOptions) -> Iterator[None]:
    """Connect to the cluster, or start one of this machine's own that ends with the block."""
    import signal

    try:
        import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        msg = "--ray needs Ray"
        raise UsageError(msg, hint="pip install 'sera-data[ray]'") from None
    address = options.address or os.environ.get("RAY_ADDRESS")
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    local: Mapping[str, Any] = (
        {} if address else {"num_cpus": max(options.replicas * options.cpus, 1), "include_dashboard": False}
    )
    try:
        ray.init(address=address or "local", log_to_driver=False, configure_logging=False, **local)
    except (ConnectionError, ValueError, RuntimeError) as error:
        msg = f"no Ray cluster at {address or 'this machine'}: {' '.join(str(error).split())[:300]}"
        raise SeraError(msg, hint="'ray start --head' starts one; 'ray status' shows it") from None
    finally:
        for number, handler in handlers.items():  # Ray puts a handler of its own in place of ours
            signal.signal(number, handler)
    try:
        yield
    finally:
        ray.shutdown()


def run_ray(
    store: Store,
    config: CollectConfig,
    tasks: Sequence[Task],
    *,
    policy: PolicyConfig,
    style: Style,
    options: RayOptions,
    interruption: Interruption,
    epoch: int | None = None,
    limits: Limits | None = None,
    on_progress: Callable[[RayJob], None] = lambda job: None,
    quiet: bool = False,
) -> tuple[Job, Work]:
    """Play a collect phase on Ray; the job and what was done."""
    with cluster(options):
        import ray

        job = RayJob(store, config, policy, options, style, limits, on_progress)
        try:
            return job.run(tasks, epoch=epoch, interruption=interruption, quiet=quiet)
        except ray.exceptions.RayError as error:
            msg = f"the Ray cluster was lost: {' '.join(str(error).split())[:300]}"
            raise SeraError(msg, hint="committed units are kept; the same command goes on") from error
