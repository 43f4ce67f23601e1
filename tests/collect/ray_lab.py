"""A Ray job with an accident, run as a process by test_ray: `python ray_lab.py STORE ACCIDENT`; prints JSON at the end.

ACCIDENT: `kill` ends a replica that has work with -9 when the first trees have finished, `SIGTERM` or another signal
strikes the driver when a unit has been committed, `die` kills every replica, again and again, `none` is none.
"""

import json
import os
import signal
import sys

import sera_data as sd
from collect.interruption import Interruption
from collect.ray_job import RayOptions, run_ray
from collect.tasks import load_tasks
from sera_data.errors import SeraError
from sera_data.plan import read_plan
from tests.collect.job_lab import small_config

EIGHT = ("groups={execution: 4, delegation: 2, rubric: 2}", "concurrency=1")


class Accident:
    def __init__(self, kind):
        self.kind, self.happened, self.restarts = kind, [], 0

    def __call__(self, job):
        self.restarts = job.restarts
        if self.kind == "none" or (self.happened and self.kind != "die"):
            return
        if self.kind.startswith("SIG") and not read_plan(job.store, "e000000").committed():
            return
        working = [seat for seat in job.seats if seat.end == "working" and seat.pid]
        for seat in working if self.kind == "die" else working[:1]:
            self.happened.append(seat.pid)
            if self.kind in ("kill", "die"):
                os.kill(seat.pid, signal.SIGKILL)
            else:
                os.kill(os.getpid(), signal.Signals[self.kind])


def main(store, kind):
    accident, interruption, config = Accident(kind), Interruption(), small_config(*EIGHT)
    answer = {}
    try:
        with interruption.active():
            _, work = run_ray(
                sd.create(store),
                config,
                load_tasks(config),
                policy=config.policy,
                style="terse",
                options=RayOptions(replicas=2, restarts=1),
                interruption=interruption,
                on_progress=accident,
            )
        answer = {"committed": len(work.committed), "skipped": len(work.skipped), "complete": work.complete}
    except SeraError as error:
        answer = {"error": type(error).__name__, "message": str(error), "code": error.exit_code}
    print(json.dumps({**answer, "happened": len(accident.happened), "restarts": accident.restarts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
