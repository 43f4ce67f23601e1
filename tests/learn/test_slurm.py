"""The loop as Slurm jobs: the scripts are what a cluster takes, and their whole chain does what the loop does."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sera_data as sd
from learn.config import LoopConfig
from learn.loop import Loop, LoopError
from learn.loop_cli import parse_step
from learn.process import run_phase
from learn.slurm import SlurmOptions, slurm_jobs, write_jobs
from learn.slurm_ranks import ranks_of_step
from sera_data.config import load_config
from sera_data.errors import UsageError
from tests.learn.test_loop_kills import TINY

ROOT = Path(__file__).parents[2]
STAND_IN = ROOT / "tests" / "learn" / "slurm_stand_in.py"
OPTIONS = SlurmOptions(gpus=8, nodes=2, array=16, partition="gpu", account="lab", setup=("module load cuda",))


def loop(out, *overrides):
    return Loop(load_config(LoopConfig, ROOT / "configs" / "demo.yaml", ["epochs=2", *overrides]), out)


def directives(text):
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]


def test_every_step_is_a_job_that_is_told_before_its_end_and_may_be_put_back(tmp_path):
    jobs = list(slurm_jobs(loop(tmp_path), OPTIONS, tmp_path / "loop.yaml"))
    names = ["000-collect", "001-learn", "002-collect", "003-learn", "004-audit"]
    assert [job.name for job in jobs] == [f"{name}.sbatch" for name in names]
    for job in jobs:
        assert {"--signal=B:USR1@120", "--requeue", "--partition=gpu", "--account=lab"} <= set(directives(job.text))
        assert "\nmodule load cuda\n" in job.text
        assert "@" not in job.text.replace("USR1@120", "")
    collect, learn, _, last, audit = (job.text for job in jobs)
    assert {"--array=0-15", "--ntasks=1", "--gpus-per-node=1"} <= set(directives(collect))
    assert "--only collect:0 --shard slurm" in collect
    assert {"--nodes=2", "--ntasks-per-node=8", "--gpus-per-node=8"} <= set(directives(learn))
    assert "--until learn:0 --launch 'srun --nodes=2 --ntasks-per-node=8" in learn
    assert "--until learn:1" in last
    assert "--gpus" not in audit


def test_a_learner_of_one_process_needs_no_srun(tmp_path):
    jobs = list(slurm_jobs(loop(tmp_path), SlurmOptions(gpus=1), tmp_path / "loop.yaml"))
    assert "srun" not in jobs[1].text
    assert "--gpus-per-node=1" in directives(jobs[1].text)


def test_an_option_that_would_break_the_script_is_refused(tmp_path):
    for line in ("qos=long", "--comment=two words", "--qos=a\nrm -rf /"):
        with pytest.raises(UsageError, match="an option of sbatch is written --name=value"):
            list(slurm_jobs(loop(tmp_path), SlurmOptions(lines=(line,)), tmp_path / "loop.yaml"))


def test_the_scripts_are_sound(tmp_path):
    paths = write_jobs(loop(tmp_path / "a run"), OPTIONS, tmp_path / "a run" / "jobs")
    assert load_config(LoopConfig, tmp_path / "a run" / "jobs" / "loop.yaml", []).epochs == 2
    for path in paths:
        subprocess.run(["bash", "-n", path], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", *paths], check=True)


def test_a_part_waits_for_the_steps_before_it_and_writes_no_state(tmp_path):
    ready = loop(tmp_path / "run")
    with pytest.raises(LoopError, match="has done 0 of the 0 steps before collect 0"):
        ready.collect_part(0, "0/2")  # the directory was not made ready
    ready.open()
    calls = []
    part = Loop(ready.config, ready.out, run=lambda command: calls.append(command) or {})
    part.collect_part(0, "1/2")
    assert calls[0][-4:] == ["--shard", "1/2", "--epoch", "0"]
    assert "--seal" not in calls[0]
    with pytest.raises(LoopError, match="has done 0 of the 2 steps before collect 1"):
        part.collect_part(1, "0/2")
    assert not (tmp_path / "run" / "loop.json").exists()


def test_a_step_is_named_by_kind_and_index(tmp_path):
    plan = loop(tmp_path).plan()
    assert parse_step("learn:1", plan) == ("learn", 1)
    for text in ("learn", "learn:2", "audit:0", "learn:01"):
        with pytest.raises(UsageError, match="the loop has no step"):
            parse_step(text, plan)


def test_tasks_of_a_step_are_ranks():
    step = {"SLURM_STEP_NUM_TASKS": "16", "SLURM_PROCID": "9", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "12345678"}
    found = ranks_of_step({**step, "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.7"})
    assert found == {
        "RANK": "9",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "16",
        "MASTER_ADDR": "10.0.0.7",
        "MASTER_PORT": str(20_000 + 12345678 % 20_000),
    }
    assert ranks_of_step({**step, "MASTER_ADDR": "node1"})["MASTER_ADDR"] == "node1"
    assert ranks_of_step({**step, "RANK": "0"}) == {}  # torchrun is at work
    assert ranks_of_step({**step, "SLURM_STEP_NUM_TASKS": "1"}) == {}
    assert ranks_of_step({}) == {}


def test_a_launcher_starts_the_command_of_a_phase(tmp_path):
    sd.create(tmp_path / "store")
    told = run_phase(["data", "ls", tmp_path / "store"], launch=[sys.executable, str(STAND_IN), "srun", *ONE_TASK])
    assert isinstance(told, dict)


ONE_TASK = ("--nodes=1", "--ntasks-per-node=1")


@pytest.fixture
def cluster(tmp_path):
    """An environment whose PATH has the stand-ins first."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "slurm").mkdir()
    for tool in ("sbatch", "scontrol", "srun"):
        path = tmp_path / "bin" / tool
        path.write_text(f'#!/bin/bash\nexec {sys.executable} {STAND_IN} {tool} "$@"\n')
        path.chmod(0o755)
    settings = {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return {**os.environ, **settings, "PATH": path, "SLURM_STAND_IN": str(tmp_path / "slurm")}


@pytest.mark.slow
def test_the_chain_runs_to_its_end_through_a_job_that_is_put_back(cluster, tmp_path):
    out, jobs = tmp_path / "run", tmp_path / "jobs"
    sets = [part for override in (*TINY, "epochs=1", "learn_last=true") for part in ("--set", override)]
    command = [sys.executable, "-m", "sera_data", "loop", "--config", str(ROOT / "configs" / "demo.yaml")]
    slurm = ["--slurm", str(jobs), "--slurm-array", "2", "--slurm-gpus", "2"]
    subprocess.run([*command, "--out", str(out), *sets, *slurm], env=cluster, check=True, capture_output=True)
    # its plan is there and none of its units: it is far from its end
    strike = {"SLURM_STAND_IN_STRIKE": f"demo-collect-0={out}/store/plans/e000000.json"}
    done = subprocess.run(["bash", jobs / "submit.sh"], env={**cluster, **strike}, capture_output=True, text=True)
    told = done.stderr + "\n".join(path.read_text() for path in (jobs / "logs").iterdir())
    assert done.returncode == 0, told
    facts = json.loads((tmp_path / "slurm" / "jobs.json").read_text())
    assert [job["name"] for job in facts] == ["demo-collect-0", "demo-learn-0", "demo-audit"]
    assert {job["state"] for job in facts} == {"COMPLETED"}, told
    assert [job["starts"] for job in facts] == [3, 1, 1], told  # one of two collectors was put back once
    steps = json.loads((out / "loop.json").read_text())["steps"]
    assert [(step["kind"], step["index"], step["result"] is not None) for step in steps] == [
        ("collect", 0, True),
        ("learn", 0, True),
    ]
    store = sd.open(out / "store")
    sd.verify(store)
    assert store.sealed_names() == ["e000000", "e000000.a001"]
    assert not store.seal_document("e000000")["partial"]
    assert store.sql("select max(version_out) from updates").fetchall()[0][0] >= 1
    assert (out / "report.html").read_text().endswith("</html>\n")


PHASE = """
import signal, sys
numbers = [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT]
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", file=sys.stderr, flush=True)
print(signal.Signals(signal.sigwait(numbers)).name, file=sys.stderr, flush=True)
sys.exit(75)
"""

LOOP = """
import sys
from learn import process
from sera_data.errors import SeraError
process.COMMAND = (sys.executable, "-c", sys.argv[1])
try:
    process.run_phase(["collect"])
except SeraError as error:
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize(("name", "code"), [("SIGUSR1", 75), ("SIGTERM", 75), ("SIGINT", 130)])
def test_a_signal_reaches_the_phase_of_a_loop_as_it_is(name, code):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOOP, PHASE]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline() == "ready\n"
        process.send_signal(signal.Signals[name])
        assert process.stderr.read() == f"{name}\n"
        assert process.wait() == code
