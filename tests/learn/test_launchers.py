"""`sera learn` under torchrun: two real ranks over gloo, one result, the rows and weights of one process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import sera_data as sd
from tests.learn.puppet import Puppet, make_policy
from tests.learn.test_phase import PLAYED, collect_epoch

ROOT = Path(__file__).parents[2]
ALONE = [sys.executable, "-m", "sera_data"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "sera_data"]
SETS = ("schedule=execution:1,rubric:1", "updates_per_collect=2", "optimizer.lr=1e-3")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Two equal stores of a puppet, each beside its policy."""
    found = []
    for name in ("one", "two"):
        root = tmp_path_factory.mktemp(name)
        collect_epoch(root / "store", Puppet(make_policy(root / "policy")), *PLAYED)
        found.append(root)
    return found


def learn(launcher, place, *more):
    sets = [part for override in SETS for part in ("--set", override)]
    paths = ["--store", place / "store", "--from", place / "policy", "--out", place / "run"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "PYTHONPATH": str(ROOT)}
    command = [*launcher, "learn", *map(str, paths), *sets, "--json", *more]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_two_ranks_of_the_command_equal_one(places):
    one, two = places
    alone, both = learn(ALONE, one), learn(TORCHRUN, two)
    assert alone.returncode == 0, alone.stderr
    assert both.returncode == 0, both.stderr
    results = [json.loads(done.stdout) for done in (alone, both)]  # one JSON object: only the first rank prints
    assert [r["version"] for r in results] == [2, 2]
    rows = [sd.open(place / "store").updates.pl().sort("update") for place in places]
    for column in ("stage", "version_out", "n_datums", "n_trained_tokens", "skip_reason"):
        assert rows[0][column].to_list() == rows[1][column].to_list()
    for column in ("loss", "grad_norm", "entropy"):
        assert rows[1][column].to_list() == pytest.approx(rows[0][column].to_list(), rel=1e-4, abs=1e-6)
    mine, theirs = (load_file(place / "run" / "policies" / "v000002" / "model.safetensors") for place in places)
    assert all(torch.allclose(mine[name], theirs[name], atol=2e-5) for name in theirs)
    for place in places:
        sd.verify(sd.open(place / "store"))
    again = learn(TORCHRUN, two)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["version"] == 2
    assert len(sd.open(two / "store").updates.pl()) == 2
