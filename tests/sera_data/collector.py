"""A collector process for tests: claims the plan of one run and commits every unit that is not committed yet.

Run: ``python tests/sera_data/collector.py STORE N_UNITS [SEED [DIES_AT]]``; it prints a line before and after each
commit. With DIES_AT it kills itself with signal 9 at that change of the bucket: odd ones before it, even ones after.
"""

import os
import random
import signal
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


def die(at: int) -> None:
    from sera_data.bucket import Bucket

    count = [0]

    def deadly(call):
        def changed(*args):
            count[0] += 1
            done = call(*args) if at % 2 == 0 else None
            if count[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args) if at % 2 else done

        return changed

    for name in ("upload", "create"):
        setattr(Bucket, name, deadly(getattr(Bucket, name)))


if __name__ == "__main__":
    if len(sys.argv) > 4 and int(sys.argv[4]):
        die(int(sys.argv[4]))
    collect(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
