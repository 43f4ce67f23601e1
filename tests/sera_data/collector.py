"""A collector process for tests: claims the plan of one run and commits every unit that is not committed yet.

Run: ``python tests/sera_data/collector.py STORE N_UNITS [SEED [DIES_AT]]``; it prints a line per unit. With DIES_AT
it kills itself with signal 9 at that change of the bucket: odd ones before it, even ones after. With ``each`` instead
of SEED it starts a collector for every number between 0 and 1 on its stdin and prints how that one ended: it kills
itself so far into its second commit, in the middle of what it writes to the disk there.
"""

import os
import random
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[2]))

import sera_data as sd
from tests.sera_data.crash import FailingDisk
from tests.sera_data.small_store import CONFIG_HASH, POLICY_HASH, RUN, task_id, unit_rows, write_unit


def collect(path: Path, units: int, seed: int, before_commit=lambda: None) -> None:
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
        before_commit()
        result = write_unit(store, plan, unit, rows)
        print("already" if result.already_committed else "wrote", unit, flush=True)


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die(at: int) -> None:
    from sera_data.bucket import Bucket

    count = [0]

    def deadly(call):
        def changed(*args):
            count[0] += 1
            done = call(*args) if at % 2 == 0 else None
            if count[0] == at:
                kill_self()
            return call(*args) if at % 2 else done

        return changed

    for name in ("upload", "create"):
        setattr(Bucket, name, deadly(getattr(Bucket, name)))


def each(path: Path, units: int) -> None:
    """One process for every number; this one has imported what they need, which takes longer than what they do."""
    import pyarrow.parquet  # noqa: F401 - no thread runs yet

    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            collect(path, units, 0, struck_in_the_second(float(line)))
            os._exit(0)
        print("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def struck_in_the_second(share: float):
    """What to call before each commit: the first one tells how many calls of the disk a commit makes."""
    disk = FailingDisk(SimpleNamespace(setattr=setattr), fault=kill_self)
    seen = []

    def before_commit():
        seen.append(disk.calls)
        if len(seen) == 2:
            disk.at = disk.calls + 1 + int(share * (seen[1] - seen[0]))

    return before_commit


if __name__ == "__main__":
    if sys.argv[3:] == ["each"]:
        each(Path(sys.argv[1]), int(sys.argv[2]))
        sys.exit()
    if len(sys.argv) > 4 and int(sys.argv[4]):
        die(int(sys.argv[4]))
    collect(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
