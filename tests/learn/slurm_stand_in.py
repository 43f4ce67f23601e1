"""Stand-ins for sbatch, scontrol and srun on one machine, for the scripts of `sera loop --slurm`.

`python slurm_stand_in.py sbatch --parsable ... FILE` runs the file with bash at once, every task of an array beside the
others, and honours --dependency=afterok, --array, --requeue and --signal=B:; an option that sbatch does not have is
refused. What it knows of its jobs lies in the directory SLURM_STAND_IN. The environment says when a job's time is
nearly over: SLURM_STAND_IN_STRIKE=NAME=GLOB sends the signal of --signal to the first start of task 0 of the job NAME
as soon as the glob matches.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

OPTIONS = {
    "account", "array", "chdir", "cpus-per-task", "dependency", "gpus-per-node", "job-name", "kill-on-invalid-dep",
    "nodes", "ntasks", "ntasks-per-node", "open-mode", "output", "parsable", "partition", "qos", "requeue", "signal",
    "time",
}  # fmt: skip


class Sbatch:
    """One submitted job and its tasks."""

    def __init__(self, words):
        *given, self.file = words
        self.place = Path(os.environ["SLURM_STAND_IN"])
        lines = Path(self.file).read_text().splitlines()
        directives = [shlex.split(line.removeprefix("#SBATCH "))[0] for line in lines if line.startswith("#SBATCH ")]
        pairs = [word.removeprefix("--").partition("=") for word in [*directives, *given]]
        self.options = {name: value for name, _, value in pairs}
        unknown = set(self.options) - OPTIONS
        if unknown:
            sys.exit(f"sbatch: unrecognized option {sorted(unknown)}")
        self.jobs = json.loads((self.place / "jobs.json").read_text()) if (self.place / "jobs.json").exists() else []
        self.number = 100 * (1 + len(self.jobs))
        self.stopped = False

    def run(self):
        after = self.options.get("dependency", "").removeprefix("afterok:")
        ended = {str(job["id"]): job["state"] for job in self.jobs}
        job = {"id": self.number, "name": self.options["job-name"], "starts": 0, "codes": [], "state": "CANCELLED"}
        if not after or ended[after] == "COMPLETED":
            self.play(job)
            job["state"] = "FAILED" if any(job["codes"]) else "COMPLETED"
        (self.place / "jobs.json").write_text(json.dumps([*self.jobs, job]))
        print(self.number)

    def play(self, job):
        first, last = map(int, self.options.get("array", "0-0").split("-"))
        waiting = [(task, 0) for task in range(first, last + 1)]
        while waiting:
            running = [(task, starts, self.start(task, starts, first, last)) for task, starts in waiting]
            job["starts"] += len(running)
            if (first, 0) in waiting:
                self.strike(running[0][2])
            waiting = []
            for task, starts, process in running:
                code = process.wait()
                request = self.place / f"requeue-{self.number + task}"
                if request.exists() and "requeue" in self.options:
                    request.unlink()
                    waiting.append((task, starts + 1))
                else:
                    job["codes"].append(code)

    def start(self, task, starts, first, last):
        numbers = {"ID": task, "MIN": first, "MAX": last, "STEP": 1, "COUNT": last - first + 1}
        array = {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in numbers.items()}
        env = {**os.environ, "SLURM_JOB_ID": str(self.number + task), "SLURM_RESTART_COUNT": str(starts)}
        names = {"%x": self.options["job-name"], "%A": self.number, "%j": self.number, "%a": task}
        output = Path(self.options["chdir"]) / re.sub(r"%\w", lambda m: str(names[m[0]]), self.options["output"])
        with output.open("a") as log:
            command = ["bash", self.file]
            where = {"cwd": self.options["chdir"], "env": env | (array if "array" in self.options else {})}
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **where)

    def strike(self, process):
        name, _, pattern = os.environ.get("SLURM_STAND_IN_STRIKE", "").partition("=")
        if name != self.options["job-name"]:
            return
        shell, _, rest = self.options["signal"].partition(":")
        assert shell == "B"  # the batch shell alone is told
        while process.poll() is None and not list(Path("/").glob(pattern.lstrip("/"))):
            time.sleep(0.002)
        process.send_signal(signal.Signals["SIG" + rest.partition("@")[0]])


def scontrol(words):
    """`scontrol requeue ID`: noted for sbatch."""
    assert words[0] == "requeue"
    (Path(os.environ["SLURM_STAND_IN"]) / f"requeue-{words[1]}").touch()


def srun(words):
    """One process per task, numbered; signals go to all of them, the exit code is the highest."""
    options = {}
    while words[0].startswith("--"):
        name, _, options[name] = words.pop(0).partition("=")
    tasks = int(options["--ntasks-per-node"]) * int(options["--nodes"])
    common = {"SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1"}
    started = [
        subprocess.Popen(words, env={**os.environ, **common, "SLURM_PROCID": str(i), "SLURM_LOCALID": str(i)})
        for i in range(tasks)
    ]
    signal.signal(signal.SIGUSR1, lambda number, _: [process.send_signal(number) for process in started])
    signal.signal(signal.SIGTERM, lambda *_: [process.kill() for process in started])
    codes = [process.wait() for process in started]
    sys.exit(max(code if code >= 0 else 128 - code for code in codes))


if __name__ == "__main__":
    tool, *rest = sys.argv[1:]
    if tool == "sbatch":
        Sbatch(rest).run()
    else:
        {"scontrol": scontrol, "srun": srun}[tool](rest)
