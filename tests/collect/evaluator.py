"""An evaluation process for tests: `sera eval run` under a code version of the test's own.

Run: ``python tests/collect/evaluator.py CODE_VERSION [options of sera eval run]``; the exit code is the command's.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from collect import eval_plan, shard
from sera_data.cli import main

if __name__ == "__main__":
    eval_plan.code_version = shard.code_version = lambda: sys.argv[1]
    sys.exit(main(["eval", "run", *sys.argv[2:]]))
