"""The whole way through object storage: collect, seal, audit, learn, look, all by URL, nothing of the store on disk."""

import json
import os
import subprocess
import sys

import pytest

import sera_data as sd
from tests.sera_data.object_server import serving

pytestmark = pytest.mark.slow
CONFIG = """
name: laptop
world: {profile: strict, tasks: tasks.jsonl}
policy: {model: pocket}
groups: {execution: 3, delegation: 1, rubric: 0}
samples: 4
budgets: {turns: [14, 10, 8], depth: 2, context: 1000}
sampling: {act: {max_tokens: 48}, writer: {max_tokens: 64}, scorer: {max_tokens: 48}}
delegation: {forks_per_tree: 1}
"""
TASKS = ("--worlds", "1000-1003", "--n", "10", "--items-per-tier", "8", "--tier-mix", "2=1", "--split", "train")


@pytest.fixture(scope="module")
def bucket():
    with serving() as name:
        yield name


@pytest.fixture
def sera(tmp_path):
    """Runs a command in an empty directory, as a user does."""

    def run(*words):
        command = [sys.executable, "-m", "sera_data", *map(str, words)]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_loop_by_url(bucket, sera, tmp_path):
    url = f"s3://{bucket}/loop/store"
    sera("tasks", "build", "textcraft", *TASKS, "--out", "tasks.jsonl")
    (tmp_path / "laptop.yaml").write_text(CONFIG)
    sera("collect", "--config", "laptop.yaml", "--store", url)
    open_epoch = json.loads(sera("data", "ls", url, "--json"))["plans"][0]
    assert (open_epoch["state"], open_epoch["committed"]) == ("open", 4)
    assert "sealed e000000" in sera("data", "seal", url)
    audit = json.loads(sera("audit", url, "--json", "--gates", "none", "--reps", "0"))
    assert audit["identity"]["path"] == url
    schedule = ("--set", "schedule=execution:2,delegation:1", "--set", "updates_per_collect=2")
    sera("learn", "--store", url, "--method", "sera", "--from", "pocket", "--out", "run", *schedule)
    assert (tmp_path / "run" / "policies" / "v000002" / "policy.json").exists()
    rows = json.loads(sera("data", "sql", url, "select stage, n_datums from updates order by update", "--json"))
    assert [row["stage"] for row in rows] == ["execution", "execution"]
    sera("data", "snapshot", url, "mine")
    assert "removed e000000.u0000" in sera("data", "gc", url, "--sealed-hours", 0)
    assert json.loads(sera("data", "verify", url, "--json"))["problems"] == []
    store = sd.open(url)
    assert store.sealed_names() == ["e000000", "e000000.a001"]
    assert len(store.updates.pl()) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["laptop.yaml", "run", "tasks.jsonl"]
