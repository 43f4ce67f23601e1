"""`sera learn` under torchrun and deepspeed: two real ranks over gloo, one result, the rows and weights of one."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import sera_data as sd
from sera_data.cli import main
from tests.port import free_port

ROOT = Path(__file__).parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "sera_data"]
SETS = ("schedule=execution:1,rubric:1", "updates_per_collect=2", "optimizer.lr=1e-3")


@pytest.fixture(scope="module")
def places(collected, tmp_path_factory):
    """Three equal stores of a puppet, each beside its policy."""
    root = tmp_path_factory.mktemp("places")
    for name in ("one", "two", "three"):
        shutil.copytree(collected, root / name)
    return [root / name for name in ("one", "two", "three")]


def deepspeed_launcher():
    """The deepspeed command with a free port; it puts --local_rank before the command's own arguments."""
    launcher = Path(sys.executable).with_name("deepspeed")
    return [str(launcher), "--num_gpus", "2", "--master_port", str(free_port()), "--module", "learn.learn_cli"]


def arguments(place):
    sets = [part for override in SETS for part in ("--set", override)]
    paths = ["--store", place / "store", "--from", place / "policy", "--out", place / "run"]
    return [*map(str, paths), *sets, "--json"]


def learn_here(place, capsys):
    """The command in this process: what it prints."""
    assert main(["learn", *arguments(place)]) == 0
    return json.loads(capsys.readouterr().out)


def learn(launcher, place):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "PYTHONPATH": str(ROOT)}
    name = [] if launcher[-1] == "learn.learn_cli" else ["learn"]
    command = [*launcher, *name, *arguments(place)]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_two_ranks_of_the_command_equal_one(places, capsys):
    one, two, three = places
    alone, both, other = learn_here(one, capsys), learn(TORCHRUN, two), learn(deepspeed_launcher(), three)
    for done in (both, other):
        assert done.returncode == 0, done.stderr
    results = [alone, json.loads(both.stdout)]  # one JSON object: only the first rank prints
    # the deepspeed launcher itself talks on stdout before the one object of the command
    printed = [line for line in other.stdout.splitlines() if line.startswith("{")]
    results += [json.loads(line) for line in printed]
    assert [r["version"] for r in results] == [2, 2, 2]
    rows = [sd.open(place / "store").updates.pl().sort("update") for place in places]
    weights = [load_file(place / "run" / "policies" / "v000002" / "model.safetensors") for place in places]
    for launched, found in zip(rows[1:], weights[1:], strict=True):
        for column in ("stage", "version_out", "n_datums", "n_trained_tokens", "skip_reason"):
            assert launched[column].to_list() == rows[0][column].to_list()
        for column in ("loss", "grad_norm", "entropy"):
            assert launched[column].to_list() == pytest.approx(rows[0][column].to_list(), rel=1e-4, abs=1e-6)
        assert all(torch.allclose(found[name], weight, atol=2e-5) for name, weight in weights[0].items())
    for place in places:
        sd.verify(sd.open(place / "store"))
    assert learn_here(two, capsys)["version"] == 2
    assert len(sd.open(two / "store").updates.pl()) == 2
