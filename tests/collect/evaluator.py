"""An evaluation process for tests: `sera eval run` under a code version of the test's own, killed where a test says.

Run: ``python tests/collect/evaluator.py CODE_VERSION LAST [options of sera eval run]``; the exit code is the command's.
With LAST > 0 the process kills itself (-9) as soon as it has committed LAST units.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from collect import eval_plan, shard
from sera_data import ShardWriter
from sera_data.cli import main

COMMITS = [0]


def counted(commit, last):
    def counting(self):
        result = commit(self)
        COMMITS[0] += 1
        if COMMITS[0] == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return counting


if __name__ == "__main__":
    eval_plan.code_version = shard.code_version = lambda: sys.argv[1]
    ShardWriter.commit = counted(ShardWriter.commit, int(sys.argv[2]))
    sys.exit(main(["eval", "run", *sys.argv[3:]]))
