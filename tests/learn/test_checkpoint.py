"""Checkpoints: whole or not there, random states, kill -9, another number of ranks."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from learn import checkpoint as module
from learn.checkpoint import (
    CheckpointError,
    State,
    convert,
    latest,
    load,
    needs_conversion,
    random_states,
    read,
    save,
    set_random_states,
)
from learn.ranks import Ranks, join
from sera_data.errors import SeraError

STATE = State(
    run_id="r-1",
    epoch=0,
    version=3,
    cursor=3,
    finished=False,
    policy_sha256="p",
    tokenizer_sha256="t",
    snapshot_sha256="s",
    consumed={"execution": 4},
    rows=[{"update": 0, "loss": 0.1 + 0.2}],
)
ROOT = Path(__file__).parents[2]
ALONE = Ranks(0, 1, torch.device("cpu"))


class Shards:
    """An engine that only has a file to save."""

    zero = 0

    def __init__(self, content=b"weights"):
        self.ranks = Ranks(0, 1, torch.device("cpu"))
        self.content = content

    def save(self, directory):
        (directory / "engine").mkdir()
        (directory / "engine" / "shard.bin").write_bytes(self.content)

    def load(self, directory):
        self.content = (directory / "engine" / "shard.bin").read_bytes()


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    save(tmp_path, Shards(b"abc"), STATE, keep=2)
    drawn = [random.random(), np.random.rand(), torch.rand(1).item()]
    found = latest(tmp_path)
    assert found.state == STATE
    engine = Shards()
    load(found, engine)
    assert engine.content == b"abc"
    assert [random.random(), np.random.rand(), torch.rand(1).item()] == drawn
    assert (tmp_path / "latest").read_text() == "c000000\n"


def test_random_states_survive_json():
    states = json.loads(json.dumps(random_states()))
    before = torch.rand(3)
    set_random_states(states)
    assert torch.equal(torch.rand(3), before)


def test_the_newest_are_kept_and_rubbish_is_ignored(tmp_path):
    (tmp_path / ".tmp-c000000").mkdir()
    (tmp_path / ".tmp-c000000" / "state.json").write_text("{}")
    assert latest(tmp_path) is None
    for cursor in range(4):
        save(tmp_path, Shards(), State(**{**vars_of(STATE), "cursor": cursor}), keep=2)
    assert sorted(p.name for p in tmp_path.glob("c*")) == ["c000002", "c000003"]
    assert latest(tmp_path).state.cursor == 3
    assert not list(tmp_path.glob(".tmp*"))


def vars_of(state):
    return {name: getattr(state, name) for name in State.__slots__}


def test_a_failed_save_leaves_the_one_before(tmp_path, monkeypatch):
    save(tmp_path, Shards(b"old"), STATE, keep=1)

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_bytes", full)
    with pytest.raises(SeraError, match=r"c000001 was not written: the disk is full .*nothing was lost"):
        save(tmp_path, Shards(b"new"), STATE, keep=1)
    assert not list(tmp_path.glob(".tmp*"))  # it would keep the disk full
    engine = Shards()
    load(latest(tmp_path), engine)
    assert engine.content == b"old"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "cannot read"),
        ("[]", "cannot read"),
        ("[" * 100_000, "cannot read"),
        ('{"format": 99}', "format 99"),
        ('{"format": 1, "surprise": 2}', "cannot read"),
        (json.dumps(asdict(STATE) | {"consumed": 5}), "consumed must be dict, got 5"),
        (json.dumps(asdict(STATE) | {"cursor": "3"}), "cursor must be int"),
    ],
)
def test_an_unreadable_state_is_named_with_the_way_out(tmp_path, text, fault):
    path = save(tmp_path, Shards(), STATE, keep=1).path
    (path / "state.json").write_text(text)
    with pytest.raises(CheckpointError, match=fault):
        read(path)


@pytest.mark.parametrize("fault", [RuntimeError("PytorchStreamReader failed"), EOFError(), KeyError("module")])
def test_damaged_shards_are_named_with_the_way_out(tmp_path, monkeypatch, fault):
    found = save(tmp_path, Shards(), STATE, keep=1)

    def broken(self, directory):
        raise fault

    monkeypatch.setattr(Shards, "load", broken)
    with pytest.raises(CheckpointError, match=rf"c000000 is damaged: {type(fault).__name__}.*remove .*c000000"):
        load(found, Shards())


def test_damaged_random_states_are_named(tmp_path):
    found = save(tmp_path, Shards(), STATE, keep=1)
    (found.path / "random-00000.json").write_text("{}")
    with pytest.raises(CheckpointError, match="is damaged"):
        load(found, Shards())


def test_another_zero_stage_is_refused(tmp_path):
    found = save(tmp_path, Shards(), STATE, keep=1)
    engine = Shards()
    engine.zero = 2
    with pytest.raises(CheckpointError, match=r"engine\.zero=0"):
        load(found, engine)


def test_only_cut_shards_need_conversion():
    assert not needs_conversion(STATE, 8)
    cut = State(**{**vars_of(STATE), "zero": 2, "world_size": 2})
    assert needs_conversion(cut, 1)
    assert not needs_conversion(cut, 2)


def test_shards_that_cannot_be_converted_are_named_with_the_way_out(tmp_path):
    state = State(**{**vars_of(STATE), "zero": 2, "world_size": 2})
    found = save(tmp_path, Shards(b"no shard of DeepSpeed"), state, keep=1)
    with pytest.raises(CheckpointError, match=r"cannot convert .*c000000 from 2 ranks: .*continue with 2 ranks"):
        convert(found, ALONE)
    assert not (found.path / "universal").exists()


SAVER = """
import os, sys
from pathlib import Path
from tests.learn.test_checkpoint import STATE, Shards, State, save, vars_of
for line in sys.stdin:
    if not (pid := os.fork()):
        print(os.getpid(), flush=True)
        for cursor in range(int(line), 10**6):
            state = State(**{**vars_of(STATE), "cursor": cursor})
            save(Path(sys.argv[1]), Shards(b"%d" % cursor * 200_000), state, keep=2)
            print(cursor, flush=True)
    os.waitpid(pid, 0)
    print("ended", flush=True)
"""


@pytest.mark.slow
def test_killed_at_any_moment_the_last_checkpoint_is_whole(tmp_path):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    draw, cursor, command = random.Random(5), 0, [sys.executable, "-c", SAVER, str(tmp_path / "c")]
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as saver:
        for _ in range(5):
            saver.stdin.write(f"{cursor}\n")
            pid = int(saver.stdout.readline())
            printed = [saver.stdout.readline()]  # the first checkpoint is there
            time.sleep(draw.random() * 0.3)
            os.kill(pid, signal.SIGKILL)
            while (line := saver.stdout.readline()) != "ended\n":
                assert line, "the one that starts savers is gone"
                printed.append(line)
            found = latest(tmp_path / "c")
            engine = Shards()
            load(found, engine)
            assert engine.content == b"%d" % found.state.cursor * 200_000
            assert found.state.cursor >= int(printed[-1])
            cursor = found.state.cursor + 1
        saver.stdin.close()


CASES = ("0 weights", "1 weights", "2 weights", "3 weights", "0 lora", "2 lora", "3 lora")


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """Four updates with a checkpoint after the second: (directory, what was said by part).

    `straight` was saved by two ranks and `alone` by one; two ranks, started once, go on with both.
    """
    from tests.learn.resume_ranks import part  # with all of the learner, which the savers do not need

    root, cases = tmp_path_factory.mktemp("resumed"), ",".join(CASES)
    part(root, "alone save 2 weights", join())
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    script = str(Path(__file__).with_name("resume_ranks.py"))
    parts = [f"straight save {cases}", f"straight load {cases}", "alone load 2 weights"]
    subprocess.run([*command, script, str(root), *parts], check=True, env=env)
    return root, {path.stem: json.loads(path.read_text()) for path in root.glob("*.json")}


@pytest.mark.slow
def test_the_same_number_of_ranks_continues_exactly(resumed):
    _, said = resumed
    assert tuple(said["straight-save-2"]) == CASES
    assert said["straight-load-2"] == said["straight-save-2"]


@pytest.mark.slow
def test_two_ranks_continue_on_one(resumed):
    from tests.learn.resume_ranks import part

    root, said = resumed
    for case, row in part(root, f"straight load {','.join(CASES)}", join()).items():
        assert row == pytest.approx(said["straight-save-2"][case], rel=1e-5, abs=1e-6), case


@pytest.mark.slow
def test_one_rank_continues_on_two(resumed):
    _, said = resumed
    wanted = said["alone-save-1"]["2 weights"]
    assert said["alone-load-2"]["2 weights"] == pytest.approx(wanted, rel=1e-5, abs=1e-6)
