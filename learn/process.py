"""One phase as a process of its own: `python -m sera_data ... --json`.

Invariant: phases share nothing but files; a signal to the loop reaches the phase, which stops cleanly, and so does one
whose loop is killed (on Linux); a phase that fails ends the loop with its exit code, after its own message. stderr
(progress) passes through, stdout is the JSON result.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from collect.interruption import HINT, Interrupted, Interruption, Struck
from sera_data.errors import SeraError
from sera_data.stops import PHASE

COMMAND = (sys.executable, "-m", "sera_data")
PR_SET_PDEATHSIG = 1


class PhaseError(SeraError):
    """A phase process failed."""


def run_phase(arguments: Sequence[str | Path]) -> dict[str, Any]:
    """Run `sera ARGUMENTS --json` and return its result; PhaseError carries its exit code."""
    command = [*COMMAND, *map(str, arguments), "--json"]
    with Interruption().active() as interruption:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), preexec_fn=_ends_with_parent())
        try:
            output, _ = process.communicate()
        except Struck:  # hand the signal on and wait, so that nothing is left running
            process.send_signal(signal.SIGINT if isinstance(interruption.error, Interrupted) else signal.SIGTERM)
            process.wait()
            raise
    if process.returncode:
        raise _fault(arguments, process.returncode)
    result: dict[str, Any] = json.loads(output)
    return result


def _fault(arguments: Sequence[str | Path], code: int) -> PhaseError:
    """What a phase's exit code means; a phase that a signal killed said nothing itself."""
    name = f"'sera {arguments[0]}'"
    if code < 0:
        word = signal.Signals(-code).name
        memory = ", as the system does when memory runs out" if -code == signal.SIGKILL else ""
        return PhaseError(f"{name} was killed by {word}{memory}", hint=HINT)
    if code in (75, 130):
        error = PhaseError(f"{name} was stopped; committed units are kept", hint=HINT)
        error.exit_code = code
        return error
    error = PhaseError(f"{name} ended with exit code {code}", hint=f"its message is above; {HINT}")
    error.exit_code = code
    return error


def _ends_with_parent() -> Callable[[], None] | None:
    """Run in the new process: ask the kernel for a SIGTERM when the parent dies. None where there is no such call."""
    if sys.platform != "linux":
        return None
    library, parent = ctypes.CDLL(None), os.getpid()

    def ask() -> None:
        library.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != parent:  # it died before the call
            os._exit(1)

    return ask


def environment() -> dict[str, str]:
    """The environment of a phase: one thread per process unless told otherwise, for small models on few cores."""
    return {"OMP_NUM_THREADS": "1", **os.environ, PHASE: "1"}
