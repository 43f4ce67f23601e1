"""The sandbox: cells of model-written Python, run by an interpreter of their own in worker processes.

Invariant: nothing of a cell runs in this process and nothing of this process is reachable from a cell. The interpreter
(Monty) knows no file, network, process or environment; a worker has an empty environment, an allocator that ends it at
the memory limit, and a watchdog. Only plain values cross, so a tool has no attributes that lead anywhere. A cell holds
a worker only while its own code runs: when it waits for a child it is frozen to bytes and the worker goes to the next
cell, so that a few workers serve any number of agents and the event loop never waits for one.

Use: ``await open_sandbox(settings).run(code, notebook=None, host=host, seed=1)``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from collect.crossing import Call, CellResult, Host, Notebook, SandboxDown, Stop
from collect.settings import SandboxSettings
from sera_data.errors import UsageError

if TYPE_CHECKING:
    import pydantic_monty as monty

    from collect.cell_run import CellRun

GRACE_S = 0.5  # what the watchdog waits beyond the time limit
SUSPENSIONS = 1 << 30  # the host counts calls itself, so that its limit ends the cell under its own name
CLOCK = datetime(2000, 1, 1, tzinfo=UTC)  # stands still in every cell, so that the same cell does the same again
PATIENCE_S = 0.1  # how often a thread that waits for the event loop looks whether its cell was given up


class Sandbox:
    """A pool of workers with one set of limits, shared by all trees of the process; started when first used."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self._workers = settings.workers or max(2, os.cpu_count() or 2)
        self._threads = ThreadPoolExecutor(self._workers, thread_name_prefix="sandbox")
        self._starting = Lock()
        self._pool: monty.Monty | None = None

    async def run(self, code: str, *, notebook: Notebook | None, host: Host, seed: int) -> CellResult:
        """Run one cell after the ones that the notebook stands for; what `host` raises passes through.

        Raises SandboxDown when no worker can be started.
        """
        from collect.cell_run import CellRun

        run = CellRun(self._settings, code, notebook=notebook, names=host.names)
        loop = asyncio.get_running_loop()
        answers: Mapping[int, Any] | None = None
        while True:
            given_up = Event()
            serve = host.call if host.anywhere else _on_loop(loop, host.call, given_up)
            try:
                await loop.run_in_executor(self._threads, self._segment, run, _unless(given_up, serve), answers, seed)
            finally:
                given_up.set()  # a cancelled cell ends at its next call
            if run.result is not None:
                return run.result
            got = await host.wait(run.pending)
            if isinstance(got, Stop):
                run.stop(got.fault)
                assert run.result is not None
                return run.result
            answers = got

    def _segment(
        self, run: CellRun, serve: Callable[[Call], Any], answers: Mapping[int, Any] | None, seed: int
    ) -> None:
        limits: monty.ResourceLimits = {
            "max_feed_duration_secs": self._settings.seconds,
            "max_memory": self._settings.memory_mb << 20,
            "max_recursion_depth": self._settings.recursion,
            "max_suspensions": SUSPENSIONS,
        }
        policy: monty.OSPolicy = {"sleep": "zero", "random_start": {"seed": seed}, "datetime": CLOCK}
        with ExitStack() as held:
            try:
                session = held.enter_context(self._opened().checkout(limits=limits, os_policy=policy))
            except (interpreter().MontyError, RuntimeError, OSError) as error:
                raise SandboxDown(str(error)) from error
            run.advance(session, serve, answers)

    def _opened(self) -> monty.Monty:
        """The pool; as many workers as threads, so that no thread ever waits for one."""
        with self._starting:
            if self._pool is None:
                pool = interpreter().Monty(
                    min_processes=0,
                    max_processes=self._workers,
                    request_timeout=self._settings.seconds + GRACE_S,
                    feed_duration_limit_grace=None,
                )
                pool.__enter__()
                self._pool = pool
            return self._pool


def _unless(given_up: Event, serve: Callable[[Call], Any]) -> Callable[[Call], Any]:
    """Serve calls until the cell is given up."""
    return lambda call: Stop() if given_up.is_set() else serve(call)


def _on_loop(loop: asyncio.AbstractEventLoop, serve: Callable[[Call], Any], given_up: Event) -> Callable[[Call], Any]:
    """Serve calls on the event loop, from a thread that waits for the answer."""

    def answer(call: Call, future: Future[Any]) -> None:
        try:
            future.set_result(serve(call))
        except BaseException as error:
            future.set_exception(error)

    def ask(call: Call) -> Any:
        future: Future[Any] = Future()
        loop.call_soon_threadsafe(answer, call, future)
        while not given_up.is_set():
            try:
                return future.result(PATIENCE_S)
            except TimeoutError:
                if future.done():
                    raise
        return Stop()

    return ask


_SANDBOXES: dict[tuple[int, SandboxSettings], Sandbox] = {}


def open_sandbox(settings: SandboxSettings) -> Sandbox:
    """The process's sandbox with these limits; its workers end with the process. UsageError when Monty is missing."""
    key = (os.getpid(), settings)
    if key not in _SANDBOXES:
        interpreter()
        _SANDBOXES[key] = Sandbox(settings)
    return _SANDBOXES[key]


def interpreter() -> Any:
    """The Monty package; UsageError where it is not installed."""
    try:
        import pydantic_monty
    except ImportError as error:
        msg = f"the dialect code needs pydantic-monty: {error}"
        raise UsageError(msg, hint="pip install 'sera-data[code]'") from None
    return pydantic_monty
