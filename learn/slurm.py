"""The jobs of a loop for Slurm: per epoch an array that collects and a job that learns, an audit at the end.

Invariant: the jobs do what `sera loop` does on one machine, by the same state file and the same store, so the end is
the same; each is started when the one before it has ended well, and one that ran out of time or lost its node puts
itself back into the queue. The scripts call nothing but `sera`, bash, sbatch, scontrol and, for several ranks, srun.

Run: ``sera loop --config FILE --out runs/NAME --slurm runs/NAME/slurm``, then ``bash runs/NAME/slurm/submit.sh``.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import yaml

from learn.loop import Loop
from learn.state_file import replace_file
from sera_data.errors import UsageError

COLLECT_GPUS = 1


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """What the jobs ask for. time: of each job, as Slurm writes it. gpus: per node of a learn job; a collector gets
    one when there are any. array: collectors of an epoch. grace_s: how long before its end a job is told. lines:
    further #SBATCH options. setup: shell lines before the command."""

    time: str = "24:00:00"
    partition: str | None = None
    account: str | None = None
    gpus: int = 0
    nodes: int = 1
    cpus: int = 4
    array: int = 4
    grace_s: int = 120
    requeues: int = 100
    lines: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """Processes of a learn phase on each node."""
        return max(self.gpus, 1)


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One script: its file name and text."""

    name: str
    text: str


def write_jobs(loop: Loop, options: SlurmOptions, directory: Path) -> list[Path]:
    """Write the scripts, `loop.yaml` and submit.sh; the loop's directory is made ready. Returns the paths."""
    loop.open()
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "loop.yaml"
    body = loop.config.resolved()
    replace_file(config, yaml.safe_dump(body, sort_keys=False).encode())
    jobs = list(slurm_jobs(loop, options, config.resolve()))
    submits = "\n".join(f"submit {shlex.quote(job.name)}" for job in jobs)
    texts = [*jobs, SlurmJob("submit.sh", _template("slurm_submit.sh").replace("@SUBMITS@", submits))]
    for job in texts:
        replace_file(directory / job.name, job.text.encode())
    return [directory / job.name for job in texts]


def slurm_jobs(loop: Loop, options: SlurmOptions, config: Path) -> Iterator[SlurmJob]:
    """The scripts in the order in which they run."""
    command = [sys.executable, "-m", "sera_data", "loop", "--config", str(config), "--out", str(loop.out.resolve())]
    name = loop.config.name
    for number, (kind, index) in enumerate(loop.plan()):
        step = f"{kind}:{index}"
        if kind == "collect":
            words = [*command, "--only", step, "--shard", "slurm"]
            wanted = [f"--array=0-{options.array - 1}", "--ntasks=1", *_gpus(min(options.gpus, COLLECT_GPUS))]
        else:
            words = [*command, "--until", step, *_launch(options)]
            wanted = [f"--nodes={options.nodes}", f"--ntasks-per-node={options.ranks}", *_gpus(options.gpus)]
        yield _job(f"{number:03d}-{kind}", f"{name}-{kind}-{index}", words, wanted, options)
    last = len(loop.plan())
    yield _job(f"{last:03d}-audit", f"{name}-audit", [*command, "--audit"], ["--ntasks=1"], options)


def _job(file: str, name: str, words: Sequence[str], wanted: Sequence[str], options: SlurmOptions) -> SlurmJob:
    log = "logs/%x-%A-%a.out" if any(line.startswith("--array") for line in wanted) else "logs/%x-%j.out"
    named = {"partition": options.partition, "account": options.account}
    lines = [
        f"--job-name={name}",
        f"--output={log}",
        "--open-mode=append",
        f"--time={options.time}",
        f"--cpus-per-task={options.cpus}",
        f"--signal=B:USR1@{options.grace_s}",
        "--requeue",
        *(f"--{key}={value}" for key, value in named.items() if value),
        *wanted,
        *options.lines,
    ]
    for line in lines:
        _require_one_line(line)
    text = _template("slurm_job.sh")
    for key, value in {
        "DIRECTIVES": "\n".join(f"#SBATCH {line}" for line in lines),
        "SETUP": "\n".join(options.setup),
        "COMMAND": shlex.join(words),
        "REQUEUES": str(options.requeues),
    }.items():
        text = text.replace(f"@{key}@", value)
    return SlurmJob(f"{file}.sbatch", text)


def _gpus(number: int) -> list[str]:
    return [f"--gpus-per-node={number}"] if number else []


def _launch(options: SlurmOptions) -> list[str]:
    """How the ranks are started: by srun where there are several, which passes signals and exit codes on."""
    if options.nodes * options.ranks == 1:
        return []
    step = ["srun", f"--nodes={options.nodes}", f"--ntasks-per-node={options.ranks}", "--kill-on-bad-exit=1"]
    return ["--launch", shlex.join([*step, *_gpus(options.gpus)])]


def _require_one_line(line: str) -> None:
    if not line.startswith("--") or not line.isprintable() or " " in line:
        msg = f"an option of sbatch is written --name=value, without spaces, got {line!r}"
        raise UsageError(msg, hint="for example --slurm-line=--qos=long; shell lines go to --slurm-setup")


def _template(name: str) -> str:
    return (files("learn") / name).read_text(encoding="utf-8")
