"""Signals that ask a command to stop.

Invariant: Python runs a signal's handler between two of its own steps, and a query of DuckDB is one step however long
it takes; so the signal also wakes a thread that interrupts every connection that reads a store, until the command
ends. While a module is being loaded the process leaves at once, because an error raised there may meet native code
that cannot pass it on (torch aborts). A signal that is ignored (a job in the background of a script) stays ignored.

Run: ``with Stops().active(): ...`` around a command; `interruptible(connection)` for every connection it opens.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from sera_data import start

if TYPE_CHECKING:
    import duckdb

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
AGAIN_S = 0.1
"""Between two interrupts: the first may come a moment before its query begins, which forgets it."""

PHASE = "SERA_PHASE"
"""Set for the phases of a loop: one that is stopped leaves it to the loop to say so, in one line."""

HINT = "(hint: the same command starts again, or continues where it stopped)"

_going_on = 0
"""Blocks being run whose queries are let go on."""

_connections: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()


class Stopped(SystemExit):
    """SIGTERM or SIGUSR1 where no command handles them; a SystemExit, so that no library takes it for a fault."""


def interruptible(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The same connection; its queries end when a command is asked to stop."""
    _connections.add(connection)
    return connection


@contextlib.contextmanager
def queries_go_on() -> Iterator[None]:
    """Inside, a signal interrupts no query: the work stops by itself where nothing of it is lost."""
    global _going_on
    _going_on += 1
    try:
        yield
    finally:
        _going_on -= 1


def announce(message: str, code: int) -> int:
    """One line on stderr; the code."""
    if code not in (75, 130) or not os.environ.get(PHASE):
        print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return code


def stop_message(number: int) -> tuple[str, int]:
    """What a command that a signal ended says, and its exit code."""
    what = "interrupted" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}"
    return f"{what} {HINT}", start.CODES[signal.Signals(number)]


def importing(frame: FrameType | None) -> bool:
    """Whether a module is being loaded where the frame stands."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def leave(message: str, code: int) -> NoReturn:
    """End the process here and now; what it was writing is as after a kill: old or new, never half."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    with contextlib.suppress(Exception):
        announce(message, code)
    os._exit(code)


class Stops:
    """While active, a signal raises `Stopped` or KeyboardInterrupt; commands that can do better replace the handlers.

    number: the signal that was raised, also where a library turned the raised error into one of its own.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Handle the signals until the block ends; does nothing outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[int, Any] = {
            number: signal.signal(number, self._raise) for number in NUMBERS if _is_default(signal.getsignal(number))
        }
        try:
            with _watch():
                yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        if importing(frame):
            leave(*stop_message(number))
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Stopped(signal.Signals(number).name)


def _is_default(handler: Any) -> bool:
    return handler in (*start.UNTOUCHED, start.leave)


@contextlib.contextmanager
def _watch() -> Iterator[None]:
    """A thread that interrupts the connections from a signal on."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=_interrupt, args=(ours,), name="stops", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        theirs.close()  # ends the thread
        thread.join()
        ours.close()


def _interrupt(wakened: socket.socket) -> None:
    """Wait for the byte that a signal writes, then interrupt again and again; an end of file ends the thread."""
    struck = False
    while True:
        if select.select([wakened], [], [], AGAIN_S if struck else None)[0]:
            numbers = wakened.recv(64)
            if not numbers:
                return
            struck = struck or any(number in NUMBERS for number in numbers)
        if struck:
            _interrupt_all()


def _interrupt_all() -> None:
    if _going_on:
        return
    for connection in list(_connections):
        with contextlib.suppress(Exception):  # closed meanwhile
            connection.interrupt()


os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # a child's signals are not the parent's
