"""Tasks of a job array share a phase: every unit once, the store of one process, whoever is started again and when."""

import pytest
from typer.testing import CliRunner

import sera_data as sd
from collect.array_task import share_of_array
from collect.collect_cli import app, parse_shard
from sera_data.errors import StoreError, UsageError
from tests.collect.job_lab import SMALL, play, sealed_hash, small_config


def task(number, first=0, last=3, step=1, count=None):
    count = count or (last - first) // step + 1
    return {
        "SLURM_ARRAY_TASK_ID": str(number),
        "SLURM_ARRAY_TASK_MIN": str(first),
        "SLURM_ARRAY_TASK_MAX": str(last),
        "SLURM_ARRAY_TASK_STEP": str(step),
        "SLURM_ARRAY_TASK_COUNT": str(count),
    }


@pytest.mark.parametrize(("first", "last", "step"), [(0, 3, 1), (1, 4, 1), (10, 22, 4), (5, 5, 1)])
def test_the_tasks_of_an_array_are_parts_without_gap_or_overlap(first, last, step):
    numbers = range(first, last + 1, step)
    parts = [share_of_array(task(number, first, last, step)) for number in numbers]
    assert parts == [(i, len(numbers)) for i in range(len(numbers))]


@pytest.mark.parametrize(
    ("environment", "match"),
    [
        ({}, "needs SLURM_ARRAY_TASK_ID, a number, got ''"),
        (task("x"), "needs SLURM_ARRAY_TASK_ID, a number, got 'x'"),
        (task(3, 0, 7, 1, count=3), "an array without holes, got 3 tasks from 0 to 7 by 1"),
        (task(9), "an array without holes"),
    ],
)
def test_what_is_no_array_task_is_refused(environment, match):
    with pytest.raises(UsageError, match=match):
        share_of_array(environment)


def collect(store, *more):
    sets = [part for override in SMALL for part in ("--set", override)]
    return CliRunner().invoke(app, ["--store", str(store), *sets, "--json", *more])


def test_an_array_gives_the_store_of_one_process_and_a_late_task_begins_no_other_epoch(tmp_path, monkeypatch):
    once = sealed_hash(*play(tmp_path / "once", small_config())[:2])
    for number in (1, 0, 1):  # the last one was put back into the queue after all was done
        for name, value in task(number, 0, 1).items():
            monkeypatch.setenv(name, value)
        done = collect(tmp_path / "array", "--shard", "slurm", "--epoch", "0", "--seal")
        assert done.exit_code == 0, done.output
    store = sd.open(tmp_path / "array")
    assert sd.content_hash(store, "e000000") == once
    assert [path.name for path in store.layout.plans.iterdir()] == ["e000000.json"]


def test_an_epoch_that_is_not_the_jobs_is_refused(tmp_path):
    assert isinstance(collect(tmp_path, "--epoch", "1").exception, StoreError)
    assert list((tmp_path / "plans").iterdir()) == []
    play(tmp_path, small_config("groups={execution: 1}"))
    error = collect(tmp_path, "--epoch", "0").exception
    assert isinstance(error, StoreError)
    assert "epoch 0 of store" in str(error)
    assert "belongs to another job: run_id collect-" in str(error)


def test_ray_and_a_part_are_not_both(tmp_path):
    error = collect(tmp_path, "--ray", "--shard", "0/2").exception
    assert isinstance(error, UsageError)
    assert "--ray hands out the units itself, got --shard 0/2" in str(error)


def test_the_shard_option_names_what_it_takes():
    with pytest.raises(UsageError, match="--shard wants i/n"):
        parse_shard("2/2")
