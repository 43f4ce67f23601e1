"""Signals that ask a command to stop, from its first moment to its last.

Invariant: Python runs a signal's handler between two of its own steps, and a query of DuckDB is one step however long
it takes; so the signal also wakes a thread that interrupts every connection that reads a store, until the command
ends. A signal that is ignored (a job in the background of a script) stays ignored.

Run: ``with Stops().active(): ...`` around a command; `interruptible(connection)` for every connection it opens.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
AGAIN_S = 0.1
"""Between two interrupts: the first may come a moment before its query begins, which forgets it."""

_connections: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()


class Stopped(SystemExit):
    """SIGTERM or SIGUSR1 where no command handles them; a SystemExit, so that no library takes it for a fault."""


def interruptible(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The same connection; its queries end when a command is asked to stop."""
    _connections.add(connection)
    return connection


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
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Stopped(signal.Signals(number).name)


def _is_default(handler: Any) -> bool:
    return handler in (signal.SIG_DFL, signal.default_int_handler)


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
    for connection in list(_connections):
        with contextlib.suppress(Exception):  # closed meanwhile
            connection.interrupt()


os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # a child's signals are not the parent's
