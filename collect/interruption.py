"""Signals turned into a clean stop.

Invariant: after SIGTERM or SIGUSR1 a command ends with exit code 75, after Ctrl-C with 130, and in both cases the
message says that the same command continues; nothing committed is lost, nothing half-done is left visible. A library
that swallows what the handler raised only delays the end: it comes where the block is left, or the next one entered.
Work that can stop only between two of its steps says so (`between_steps`): a signal then waits for the next of them.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ClassVar

from sera_data.errors import Preempted, SeraError
from sera_data.stops import importing, leave, queries_go_on

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
HINT = "the same command continues where it stopped"
SAME_STOP_S = 1.0
"""A signal this soon after the first is the same stop: a terminal sends one, and the parent process another."""


class Interrupted(SeraError):
    """Ctrl-C."""

    exit_code = 130


class Struck(SystemExit):
    """What the handler raises inside the block, where it becomes the stop's error; no library takes it for a fault."""


def stop_error(number: int, *, kept: str = "committed units are kept") -> SeraError:
    """The error that a signal stands for."""
    if number == signal.SIGINT:
        return Interrupted(f"interrupted; {kept}", hint=HINT)
    return Preempted(f"stopped by {signal.Signals(number).name}; {kept}", hint=HINT)


class Interruption:
    """While active, a signal raises in the main thread, or cancels the task that asked for it; the block ends with its
    error."""

    _around: ClassVar[list[Interruption]] = []
    """Those that are active, the outermost first."""

    def __init__(self) -> None:
        self.error: SeraError | None = None
        self.number: int | None = None
        self._since = 0.0
        self._between_steps = False
        self._deliver: Callable[[], object] | None = None

    @contextmanager
    def active(self) -> Iterator[Interruption]:
        """Handle the signals until the block ends; does nothing outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        for outer in self._around:
            outer.require_going()
        before: dict[int, Any] = {number: signal.signal(number, self._handle) for number in SIGNALS}
        self._around.append(self)
        try:
            yield self
        except (Struck, Exception) as fault:  # a library that was struck may raise an error of its own, as DuckDB does
            if self.error is None or fault is self.error:
                raise
            raise self.error from fault
        finally:
            self._around.remove(self)
            for number, handler in before.items():
                signal.signal(number, handler)
        self.require_going()

    def require_going(self) -> None:
        """Raise the stop's error when there was a signal, whatever became of what the handler raised."""
        if self.error is not None:
            raise self.error

    @contextmanager
    def cancels_current_task(self) -> Iterator[None]:
        """Inside an event loop: a signal cancels the current task instead of raising wherever it strikes."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        self._deliver = lambda: loop.call_soon_threadsafe(task.cancel) if task else None
        try:
            yield
        except (
            asyncio.CancelledError,
            Struck,
            Exception,
        ) as fault:  # what a cancelled tree raises is no fault of its own
            if self.error is None:
                raise
            raise self.error from fault
        finally:
            self._deliver = None

    @contextmanager
    def between_steps(self) -> Iterator[None]:
        """Inside, a signal only sets `error` and `number`; the work asks for them where it can stop, and stops itself.

        A second Ctrl-C, from a person who does not want to wait, strikes at once.
        """
        before, self._between_steps = self._between_steps, True
        try:
            with queries_go_on():
                yield
        finally:
            self._between_steps = before

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, error = self.error is None, self.error or stop_error(number)
        if first:
            self.error, self.number, self._since = error, number, time.monotonic()
        elif time.monotonic() - self._since < SAME_STOP_S:
            return  # it must not break the clean end that the first one began
        if self._between_steps and (first or number != signal.SIGINT):
            return
        if self._deliver is not None:
            self._deliver()
        elif importing(frame):
            leave(str(error), error.exit_code)
        else:
            raise Struck(str(error))
