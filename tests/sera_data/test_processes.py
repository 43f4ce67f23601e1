"""Real processes: two collectors at once, a small file limit, and kill -9 again and again."""

import random
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sera_data as sd
from schemas import TABLES
from sera_data.errors import StoreError
from tests.sera_data.small_store import CONFIG_HASH, RUN, task_id, unit_rows, write_unit

COLLECTOR = str(Path(__file__).with_name("collector.py"))
UNITS = 6


def start(path, units=UNITS, seed=0, dies_at=0):
    command = [sys.executable, COLLECTOR, str(path), str(units), str(seed), str(dies_at)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.split()


def wholly(store):
    """Every committed unit has its rows in every table, and no other row is there."""
    shards = store.shard_ids()
    for table in ("runs", "tasks", "nodes", "turns", "rubrics", "branches", "labels", "scores"):
        column = store.table(table).arrow(["shard_id"])["shard_id"]
        assert sorted(set(column.to_pylist())) == shards
        assert len(column) == sum(store.commit_document(s)["files"][table]["rows"] for s in shards)
    return shards


def test_two_collectors_at_once_give_the_union(place):
    collectors = [start(place / "s", seed=seed) for seed in (1, 2)]
    words = [finish(process) for process in collectors]
    store = sd.open(place / "s")
    assert [p.name for p in store.layout.plans.iterdir()] == ["e000000.json"]
    assert wholly(store) == [f"e000000.u{i:04d}" for i in range(UNITS)]
    assert sum(w.count("wrote") for w in words) == UNITS
    assert list(store.layout.staging.iterdir()) == []
    alone = sd.open(place / "s")
    assert sd.seal(alone, "e000000").rows["nodes"] == UNITS * 7


def test_a_file_size_limit_is_a_full_disk(tmp_path):
    store = sd.create(tmp_path / "s")
    units = [{"unit_id": "u0000"}, {"unit_id": "u0001"}]
    plan = sd.claim_plan(store, run_id=RUN, phase="collect", config_hash=CONFIG_HASH, units=units)
    write_unit(store, plan, "u0000", unit_rows(task_id(0), samples=1, k=2))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, hard))
    try:
        with pytest.raises(StoreError, match=r"e000000.u0001 was not committed: the disk is full.*nothing was lost"):
            write_unit(store, plan, "u0001", unit_rows(task_id(1), samples=1, k=2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert wholly(store) == ["e000000.u0000"]
    assert list(store.layout.staging.iterdir()) == []
    assert not write_unit(store, plan, "u0001", unit_rows(task_id(1), samples=1, k=2)).already_committed


@pytest.mark.slow
def test_twenty_kills_lose_and_repeat_nothing(tmp_path):
    """Kill -9 while a unit is being committed, twenty times; the store that results equals an undisturbed one."""
    draw, kills, units = random.Random(20), 20, 44  # a killed collector has committed one unit, or two
    command = [sys.executable, COLLECTOR, str(tmp_path / "s"), str(units), "each"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        for _ in range(kills):
            process.stdin.write(f"{draw.random()}\n")
            assert process.stdout.readline().startswith("wrote ")
            assert process.stdout.readline() == f"ended {-signal.SIGKILL}\n"
            store = sd.open(tmp_path / "s")
            assert sd.verify(store).problems == ()
        process.stdin.close()
        assert process.wait() == 0
    wholly(store)  # nobody mends a unit that a kill left half done
    left = len(list(store.medium.leftovers()))
    assert left > 0, "no kill struck while files were being written"
    finish(start(tmp_path / "s", units=units))
    finish(start(tmp_path / "undisturbed", units=units))
    hashes = []
    for name in ("s", "undisturbed"):
        store = sd.open(tmp_path / name)
        assert len(wholly(store)) == units
        hashes.append(sd.seal(store, "e000000").content_hash)
    assert hashes[0] == hashes[1]
    assert len(sd.collect_garbage(sd.open(tmp_path / "s"), staging_hours=0).staging) == left
    print(f"{kills} kills left {left} unfinished directories in staging and lost nothing; {len(TABLES)} tables equal")


@pytest.mark.slow
def test_kills_in_object_storage_lose_and_repeat_nothing(objects):
    """Kill -9 at a request of a commit, four times; the store that results equals an undisturbed one."""
    draw, units, left = random.Random(10), 6, 0
    for _ in range(4):
        process = start(objects / "s", units=units, dies_at=draw.randint(4, 16))
        process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL
        store = sd.open(objects / "s")
        wholly(store)
        assert sd.verify(store).problems == ()
    finish(start(objects / "s", units=units))
    left = len(list(sd.open(objects / "s").medium.leftovers()))
    assert left > 0, "no kill struck while files were being put"
    finish(start(objects / "undisturbed", units=units))
    hashes = []
    for name in ("s", "undisturbed"):
        store = sd.open(objects / name)
        assert len(wholly(store)) == units
        hashes.append(sd.seal(store, "e000000").content_hash)
    assert hashes[0] == hashes[1]
    assert len(sd.collect_garbage(sd.open(objects / "s"), staging_hours=0).staging) == left
    assert list(sd.open(objects / "s").medium.leftovers()) == []
