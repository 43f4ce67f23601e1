"""A collector process for tests: claims the plan of one run and commits every unit that is not committed yet.

Run: ``python tests/sera_data/collector.py STORE N_UNITS [SEED]``; it prints a line before and after each commit.
"""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import sera_data as sd
from tests.sera_data.small_store import CONFIG_HASH, POLICY_HASH, RUN, task_id, unit_rows, write_unit


def collect(path: Path, units: int, seed: int) -> None:
    store = sd.create(path)
    plan = sd.claim_plan(
        store,
        run_id=RUN,
        phase="collect",
        policy_hash=POLICY_HASH,
        config_hash=CONFIG_HASH,
        units=[{"unit_id": f"u{i:04d}", "purpose": "execution"} for i in range(units)],
    )
    order = list(range(units))
    random.Random(seed).shuffle(order)
    for index in order:
        unit = plan.unit_ids[index]
        if unit in plan.committed():
            continue
        rows = unit_rows(task_id(index), epoch=plan.epoch, samples=1, k=4)
        print("begin", unit, flush=True)
        result = write_unit(store, plan, unit, rows)
        print("already" if result.already_committed else "wrote", unit, flush=True)


if __name__ == "__main__":
    collect(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
