"""A stored run repeated from its snapshots: bitwise on CPU, and refused when something is another one now."""

import json
import shutil
import subprocess
import sys

import pytest

import sera_data as sd
from collect.policy_directory import read_policy_directory
from learn import replaying
from learn.config import LearnConfig
from learn.phase import learn_phase, open_phase
from learn.ranks import join
from learn.refreshed import method_of
from learn.replaying import compare, replay_run, run_named
from sera_data.cli import main
from sera_data.config import load_config
from sera_data.errors import StoreError, UsageError
from tests.learn.puppet import Puppet, make_policy
from tests.learn.test_phase import PLAYED, collect_epoch

pytestmark = pytest.mark.slow
PHASE = ("schedule=execution:1", "updates_per_collect=2", "optimizer.lr=1e-3", "method=rao", "groups_per_update=1")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run of two phases over two epochs, the second from where the first ended: (root, run id)."""
    root = tmp_path_factory.mktemp("ran")
    policy = make_policy(root / "policy").path
    for _ in range(2):
        collect_epoch(root / "store", Puppet(read_policy_directory(policy)), *PLAYED, "groups={execution: 3}")
        config = load_config(LearnConfig, None, PHASE)
        store = sd.open(root / "store")
        phase = open_phase(store, config=config, method=method_of(config), policy=policy, out=root / "run", epoch=None)
        result = learn_phase(phase, ranks=join())
        assert all(row["skip_reason"] is None for row in result.rows)
        policy = result.policy
    return root, result.run_id


def replayed(root, run, out, **values):
    return replay_run(sd.open(root / "store"), run, policy=root / "policy", out=out, ranks=join(), **values)


def test_a_run_repeats_bitwise_through_both_phases_and_ends_with_the_same_policy(ran, tmp_path):
    root, run = ran
    files = sorted(path for path in (root / "store").rglob("*"))
    done = replayed(root, run, tmp_path)
    assert [phase.differences for phase in done] == [(), ()]
    assert [(phase.epoch, phase.version, phase.updates) for phase in done] == [(0, 2, 2), (1, 4, 2)]
    assert (done[-1].policy / "model.safetensors").read_bytes() == (
        root / "run/policies/v000004/model.safetensors"
    ).read_bytes()
    assert sorted(path for path in (root / "store").rglob("*")) == files


def test_every_column_that_differs_is_named():
    row = {"update": 3, "loss": 0.5, "datum_ids": ["a"], "timings": {"total_s": 1.0}, "run_id": "x"}
    assert compare([row], [{**row, "timings": None, "run_id": "y"}]) == []
    assert compare([row], [{**row, "loss": 0.25}]) == ["update 3: loss 0.25 instead of 0.5"]
    assert compare([row, row], [row]) == ["1 rows instead of 2"]


def test_another_code_is_refused_unless_it_is_asked_for(ran, tmp_path, monkeypatch):
    root, run = ran
    monkeypatch.setattr(replaying, "code_version", lambda: "9.9.9")
    with pytest.raises(StoreError, match=r"what differs: code: \S+ then, 9.9.9 now.*--other-code"):
        replayed(root, run, tmp_path)


def test_another_policy_and_another_snapshot_are_refused_by_name(ran, tmp_path):
    root, run = ran
    other = make_policy(tmp_path / "other", seed=1).path
    with pytest.raises(StoreError, match=r"what differs: policy: .* then, .* now; weights: "):
        replay_run(sd.open(root / "store"), run, policy=other, out=tmp_path / "a", ranks=join())
    with pytest.raises(StoreError, match="policy: the phase began at version 0, this is version 4"):
        replay_run(sd.open(root / "store"), run, policy=root / "run/policies/v000004", out=tmp_path, ranks=join())
    store = sd.open(shutil.copytree(root / "store", tmp_path / "store"))
    path = store.layout.snapshots / f"{run}-v000000-e000000.json"
    body = json.loads(path.read_text())
    body["hashes"]["credit_hash"] = "f" * 64
    path.write_text(json.dumps(body))
    with pytest.raises(StoreError, match=r"snapshot: .* then, .* now; method: ffffffffffff then"):
        replay_run(store, run, policy=root / "policy", out=tmp_path / "b", ranks=join())


def test_the_command_names_runs_and_takes_a_directory(ran, tmp_path, capsys):
    root, run = ran
    assert run_named(str(root / "run")) == run
    command = ["learn", "--store", str(root / "store"), "--from", str(root / "policy"), "--out", str(tmp_path / "o")]
    assert main([*command, "--replay", "learn-none"]) == 2
    assert f"its runs: {run}" in capsys.readouterr().err
    assert main([*command, "--replay", run, "--set", "seed=1"]) == 2
    assert "takes everything from the stored run, got --set as well" in capsys.readouterr().err
    with pytest.raises(UsageError, match="is no directory of a learn run"):
        run_named(str(tmp_path))
    whole = [sys.executable, "-m", "sera_data", *command, "--replay", str(root / "run"), "--json"]
    body = json.loads(subprocess.run(whole, check=True, stdout=subprocess.PIPE).stdout)
    assert (body["run_id"], body["same"], body["updates"]) == (run, True, 4)
