"""The first and the last moments of the `sera` command, before anything is loaded and after all is done.

Invariant: a signal is one line and an exit code from the interpreter's start to its end; nothing but the standard
library's smallest modules is imported before the handlers stand.

Run: the `sera` script and ``python -m sera_data`` call `main`.
"""

import atexit
import os
import signal
import sys
from types import FrameType

CODES = {signal.SIGINT: 130, signal.SIGTERM: 75, signal.SIGUSR1: 75}
UNTOUCHED = (signal.SIG_DFL, signal.default_int_handler)


def main() -> int:
    """Run the command of sys.argv; the exit code."""
    ours = [number for number in CODES if signal.getsignal(number) in UNTOUCHED]
    for number in ours:
        signal.signal(number, leave)
    atexit.register(_ignore, ours)  # the first one registered runs last

    from sera_data.cli import main as run

    code = run()

    def end(number: int, frame: FrameType | None) -> None:
        os._exit(code)

    for number in ours:
        signal.signal(number, end)
    return code


def leave(number: int, frame: FrameType | None) -> None:
    """Nothing has begun: end at once."""
    what = "interrupted" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}"
    if not os.environ.get("SERA_PHASE"):
        os.write(2, f"error: {what} (hint: the same command starts again)\n".encode())
    os._exit(CODES[signal.Signals(number)])


def _ignore(numbers: list[signal.Signals]) -> None:
    """The interpreter is being taken apart and has no handlers any more."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
