"""One phase as a process of its own: `python -m sera_data ... --json`.

Invariant: phases share nothing but files; a signal to the loop reaches the phase, which stops cleanly; a phase that
fails ends the loop with its exit code, after its own message. stderr (progress) passes through, stdout is the JSON
result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collect.interruption import Interruption
from sera_data.errors import SeraError


class PhaseError(SeraError):
    """A phase process failed."""


def run_phase(arguments: Sequence[str | Path]) -> dict[str, Any]:
    """Run `sera ARGUMENTS --json` and return its result; PhaseError carries its exit code."""
    command = [sys.executable, "-m", "sera_data", *map(str, arguments), "--json"]
    with Interruption().active():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())
        try:
            output, _ = process.communicate()
        except SeraError:  # a signal: hand it on and wait, so that nothing is left running
            process.terminate()
            process.wait()
            raise
    if process.returncode:
        msg = f"'sera {' '.join(map(str, arguments[:1]))}' ended with exit code {process.returncode}"
        error = PhaseError(msg, hint="its message is above; the same command continues where it stopped")
        error.exit_code = process.returncode if process.returncode > 0 else 1
        raise error
    result: dict[str, Any] = json.loads(output)
    return result


def environment() -> dict[str, str]:
    """The environment of a phase: one thread per process unless told otherwise, for small models on few cores."""
    return {"OMP_NUM_THREADS": "1", **os.environ}
