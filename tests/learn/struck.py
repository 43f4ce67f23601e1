"""`sera` with a signal at a known update: `python struck.py WHOM SIGNAL RANK UPDATE learn ...`, run by test_stopping.

WHOM: `self` strikes the rank itself, `parent` the process that started it (a launcher), and then waits until the
signal has come back from there. UPDATE counts the updates of this process; 0 strikes nobody.
"""

import os
import signal
import sys
import time

from collect.interruption import Interruption
from learn.engine import Engine
from sera_data.cli import main


def strike(whom, number, at):
    update, seen = Engine.update, []

    def struck(engine, *args, **settings):
        row = update(engine, *args, **settings)
        seen.append(row)
        if len(seen) == at:
            os.kill(os.getpid() if whom == "self" else os.getppid(), number)
            while Interruption._around[-1].error is None:
                time.sleep(0.01)
        return row

    Engine.update = struck


if __name__ == "__main__":
    whom, name, rank, at = sys.argv[1:5]
    if os.environ.get("RANK", "0") == rank:
        strike(whom, signal.Signals[name], int(at))
    sys.exit(main(sys.argv[5:]))
