"""Signals to real learners: a checkpoint at the next update on all ranks, exit code 75, the same result after."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import sera_data as sd
from collect.interruption import Interrupted, Interruption
from learn.checkpoint import latest
from learn.config import LearnConfig
from learn.method import open_method
from learn.phase import learn_phase, open_phase
from learn.ranks import Ranks, join
from learn.stopping import Stopping
from sera_data.config import load_config
from sera_data.errors import Preempted
from tests.learn.test_phase import copied

ROOT = Path(__file__).parents[2]
STRUCK = [str(ROOT / "tests" / "learn" / "struck.py")]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
SETS = ("schedule=execution:1", "updates_per_collect=6", "reuse=6", "optimizer.lr=1e-3", "engine.checkpoint_every=5")
MEASURED = 'select "update", version_out, loss, grad_norm, entropy, ratio_mean from updates order by 1'


def learn(place, *, whom="self", name="SIGTERM", rank=0, at=0, launcher=()):
    """`sera learn` in a process of its own, struck at its update `at`."""
    sets = [part for override in SETS for part in ("--set", override)]
    paths = ["--store", place / "store", "--from", place / "policy", "--out", place / "run"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *launcher, *STRUCK, whom, name, str(rank), str(at)]
    return subprocess.run(
        [*command, "learn", *map(str, paths), *sets, "--json"],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )


def finish(place):
    """The same phase in this process, from where it stands to its end."""
    config = load_config(LearnConfig, None, [*SETS])
    policy, out = place / "policy", place / "run"
    phase = open_phase(
        sd.open(place / "store"),
        config=config,
        method=open_method(config.method),
        policy=policy,
        out=out,
        epoch=None,
    )
    assert learn_phase(phase, ranks=join()).version == 6


def stopped_at(place):
    """Updates in the newest checkpoint."""
    return latest(place / "run" / "checkpoints").state.cursor


def result(place):
    """The measured columns of the updates and the weights at the end."""
    store = sd.open(place / "store")
    sd.verify(store)
    return store.sql(MEASURED).fetchall(), load_file(place / "run" / "policies" / "v000006" / "model.safetensors")


@pytest.fixture(scope="module")
def straight(collected, tmp_path_factory):
    place = copied(collected, tmp_path_factory.mktemp("straight"))
    finish(place)
    return result(place)


@pytest.mark.slow
def test_one_rank_checkpoints_at_the_next_update_and_goes_on_bitwise_the_same(collected, straight, tmp_path):
    place = copied(collected, tmp_path)
    first = learn(place, name="SIGUSR1", at=2)
    assert first.returncode == 75, first.stderr
    assert "stopped by SIGUSR1; checkpoint" in first.stderr
    assert "holds 2 updates (hint: the same command continues where it stopped)" in first.stderr
    assert "Traceback" not in first.stderr
    assert stopped_at(place) == 2  # checkpoint_every is 5
    finish(place)
    (rows, weights), (wanted, same) = result(place), straight
    assert rows == wanted
    assert all(torch.equal(weights[name], same[name]) for name in same)


@pytest.mark.slow
def test_a_signal_to_one_rank_or_to_the_launcher_stops_both_ranks_at_one_update(collected, straight, tmp_path):
    place = copied(collected, tmp_path)
    one = learn(place, name="SIGUSR1", rank=1, at=2, launcher=TORCHRUN)
    assert one.returncode, one.stderr  # torchrun has an exit code of its own; the ranks' is in what it prints
    assert "stopped with the other ranks; checkpoint" in one.stderr
    assert "stopped by SIGUSR1; checkpoint" in one.stderr
    assert "exitcode  : 75" in one.stderr
    assert stopped_at(place) == 2
    assert len(list((place / "run" / "checkpoints" / "c000000").glob("random-*.json"))) == 2
    launcher = learn(place, whom="parent", name="SIGTERM", at=1, launcher=TORCHRUN)
    assert launcher.returncode, launcher.stderr
    assert "stopped by SIGTERM; checkpoint" in launcher.stderr
    assert stopped_at(place) in (3, 4)  # the other rank may hear of it one update later
    finish(place)
    rows, wanted = result(place)[0], straight[0]
    assert [row[:2] for row in rows] == [row[:2] for row in wanted]
    for found, same in zip(rows, wanted, strict=True):
        assert found[2:] == pytest.approx(same[2:], rel=1e-3, abs=1e-5)


ALONE = Ranks(0, 1, torch.device("cpu"))


@pytest.mark.parametrize(("number", "error"), [(signal.SIGTERM, Preempted), (signal.SIGINT, Interrupted)])
def test_a_signal_waits_for_the_end_of_an_update(number, error):
    done = []

    def updates(interruption):
        stopping = Stopping(ALONE, interruption)
        with stopping.of_updates():
            update(stopping)

    def update(stopping):
        assert not stopping.agreed()
        os.kill(os.getpid(), number)
        done.append("the update")
        assert stopping.agreed()
        raise stopping.error(updates=1, checkpoint=Path("run"))

    with pytest.raises(error, match="checkpoint run holds 1 updates"), Interruption().active() as interruption:
        updates(interruption)
    assert done == ["the update"]


class OtherRankAsked(Ranks):
    """Two ranks, of which the other one was asked to stop."""

    def sum(self, tensor):
        return tensor + 1


def test_a_rank_stops_with_another_one():
    stopping = Stopping(OtherRankAsked(0, 2, torch.device("cpu")))
    assert stopping.agreed()
    error = stopping.error(updates=0, checkpoint=None)
    assert (error.exit_code, "stopped with the other ranks; nothing was trained yet" in str(error)) == (75, True)


def test_several_ranks_hold_signals_back_in_the_whole_phase_and_one_rank_does_not():
    reached = []

    def phase(ranks):
        with Interruption().active() as interruption, Stopping(ranks, interruption).of_phase():
            os.kill(os.getpid(), signal.SIGUSR1)
            reached.append(ranks.size)

    for size in (1, 2):
        with pytest.raises(Preempted):
            phase(Ranks(0, size, torch.device("cpu")))
    assert reached == [2]
