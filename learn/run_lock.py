"""One process at a time in the directory of a run.

Invariant: the lock is the kernel's (flock on `.lock`), so a killed process lets go of it. Who comes second waits and
says for whom: the work of both is the same, and it finds the first one's when that ends. A signal ends the waiting.

Run: used by ``sera learn`` and ``sera loop``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from sera_data.disk import disk_faults
from sera_data.errors import SeraError

LOCK = ".lock"
POLL_S = 0.2


@contextlib.contextmanager
def sole_process(directory: Path, *, work: str) -> Iterator[None]:
    """Hold the directory's lock, waiting for it if need be; the directory is made when it is not there."""
    handle = _open(directory)
    try:
        _wait(handle, directory, work)
        with disk_faults(f"{directory / LOCK} was not written", retry="run the same command again"):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        os.close(handle)


def _open(directory: Path) -> int:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        msg = f"cannot write in {directory}: {error.strerror} ({error.filename})"
        raise SeraError(msg, hint="give a directory for --out that can be made and written") from None


def _wait(handle: int, directory: Path, work: str) -> None:
    told = False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                holder = os.pread(handle, 200, 0).decode(errors="replace") or "another process"
                print(f"waiting for {holder}, which works on this {work} in {directory}", file=sys.stderr)
                told = True
            time.sleep(POLL_S)
        else:
            return
