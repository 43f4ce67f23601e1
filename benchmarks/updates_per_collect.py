"""How many updates may one collect epoch feed? 1, 5 and 20 of them, at equal samples and equal updates.

Every row of configs/updates_per_collect.yaml collects 8 groups per update and makes 20 updates; what differs is how old
the data are when they are trained: 0, up to 4, up to 19 updates. Builds the pocket table's held-out tasks once,
then runs `sera compare`; killed at any moment and started again it continues. It first checks that the rows are equal
in samples.

Run: ``python benchmarks/updates_per_collect.py [OUT] [JOBS]`` (default runs/updates_per_collect 2); ``--smoke`` takes
a few trees a row, ``--report`` only reads.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pocket_table import build

from learn.compare_config import CompareConfig
from learn.config import LoopConfig
from sera_data.config import load_config

CONFIG = Path(__file__).parents[1] / "configs" / "updates_per_collect.yaml"
SERA = [sys.executable, "-m", "sera_data"]
SMOKE = (
    "seeds=[1]",
    "protocols.t1={samples: 1, limit: 4}",
    "rows.every_1.set=[epochs=2, learn.updates_per_collect=1, learn.groups_per_update=1, collect.samples=2]",
    "rows.every_5.set=[epochs=1, learn.updates_per_collect=2, learn.groups_per_update=1, collect.samples=2]",
    "rows.every_20.set=[epochs=1, learn.updates_per_collect=2, learn.groups_per_update=1, collect.samples=2]",
    "resamples=200",
)


def budgets(config: CompareConfig) -> dict[str, tuple[int, int]]:
    """Updates and groups that each row collects for."""
    found = {}
    for key, row in config.rows.items():
        loop = load_config(LoopConfig, Path(config.loop), list(row.overrides))
        updates = loop.epochs * loop.learn.updates_per_collect
        found[key] = updates, updates * loop.learn.groups_per_update * loop.collect.samples
    return found


def main(arguments: list[str]) -> int:
    """Build, check, run, print."""
    named = [a for a in arguments if not a.startswith("-")]
    out, jobs = Path(named[0] if named else "runs/updates_per_collect"), named[1] if len(named) > 1 else "2"
    build(out, "textcraft")
    settings = [f"tasks={out / 'held_out.jsonl'}", *(SMOKE if "--smoke" in arguments else ())]
    found = budgets(load_config(CompareConfig, CONFIG, settings))
    print("\n".join(f"{key}: {updates} updates, {trees} trees" for key, (updates, trees) in found.items()))
    if len(set(found.values())) > 1:
        print("the rows are not equal in updates and samples", file=sys.stderr)
        return 1
    command = [*SERA, "compare", "--config", str(CONFIG), "--out", str(out / "compare"), "--jobs", jobs]
    command += [part for setting in settings for part in ("--set", setting)]
    command += ["--report"] if "--report" in arguments else []
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
