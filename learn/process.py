"""One phase as a process of its own: `python -m sera_data ... --json`.

Invariant: phases share nothing but files; a signal to the loop reaches the phase as it is, which stops cleanly, and so
does one whose loop is killed (on Linux); a phase that fails ends the loop with its exit code, after its own message.
stderr (progress) passes through, stdout is the JSON result.
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

from collect.interruption import HINT, Interruption, Struck
from sera_data.errors import SeraError
from sera_data.stops import PHASE

COMMAND = (sys.executable, "-m", "sera_data")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone")
PR_SET_PDEATHSIG = 1
HANDED_ON = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
"""Signals that torchrun hands to its ranks; its own list lacks SIGUSR1, which would kill it."""


class PhaseError(SeraError):
    """A phase process failed."""


def run_phase(arguments: Sequence[str | Path], *, ranks: int = 1, launch: Sequence[str] = ()) -> dict[str, Any]:
    """Run `sera ARGUMENTS --json` and return its result; PhaseError carries its exit code.

    ranks: processes that torchrun starts on this machine; only the first prints a result. launch: a launcher of the
    cluster, put before the command in place of torchrun.
    """
    torchrun = () if ranks == 1 else (*TORCHRUN, f"--nproc_per_node={ranks}", "-m", "sera_data")
    launcher = (*launch, *COMMAND) if launch else torchrun or COMMAND
    return run_side_by_side([[*launcher, *map(str, arguments), "--json"]], names=[str(arguments[0])])[0]


def run_parts(arguments: Sequence[str | Path], *, parts: int) -> list[dict[str, Any]]:
    """`run_phase` for `parts` processes at once, each with its --shard i/parts and, where GPUs are, one of them."""
    commands = [[*COMMAND, *map(str, arguments), "--shard", f"{i}/{parts}", "--json"] for i in range(parts)]
    devices = visible_devices(os.environ.get("CUDA_VISIBLE_DEVICES"), parts)
    extra = [{"CUDA_VISIBLE_DEVICES": device} for device in devices]
    return run_side_by_side(commands, names=[f"{arguments[0]} --shard {i}/{parts}" for i in range(parts)], extra=extra)


def visible_devices(listed: str | None, parts: int) -> list[str]:
    """The GPU of each part: those that the environment lists in turn, or 0, 1, 2, ..."""
    found = [name.strip() for name in (listed or "").split(",") if name.strip()] or [str(i) for i in range(parts)]
    return [found[i % len(found)] for i in range(parts)]


def run_side_by_side(
    commands: Sequence[Sequence[str]], *, names: Sequence[str], extra: Sequence[dict[str, str]] = ()
) -> list[dict[str, Any]]:
    """Run commands at once and return the JSON that each prints; the first fault is raised when all have ended."""
    with Interruption().active() as interruption:
        processes = []
        for i, command in enumerate(commands):
            env = environment() | (extra[i] if extra else {})
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, env=env, preexec_fn=_ends_with_parent()))
        try:
            outputs = [process.communicate()[0] for process in processes]
        except Struck:  # hand the signal on and wait, so that nothing is left running
            for process in processes:
                process.send_signal(interruption.number or signal.SIGTERM)
            for process in processes:
                process.wait()
            raise
    for name, process in zip(names, processes, strict=True):
        if process.returncode:
            raise _fault([name], process.returncode)
    return [json.loads(output) for output in outputs]


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
    return {"OMP_NUM_THREADS": "1", "TORCHELASTIC_SIGNALS_TO_HANDLE": HANDED_ON, **os.environ, PHASE: "1"}
