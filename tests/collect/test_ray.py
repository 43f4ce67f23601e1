"""A phase on Ray: the store of one process, whoever is lost on the way. Two real actors on this machine."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sera_data as sd
from collect.ray_dealer import Dealer
from collect.tasks import load_tasks
from tests.collect.job_lab import play, small_config
from tests.collect.ray_lab import EIGHT

ROOT = Path(__file__).parents[2]
LAB = ROOT / "tests" / "collect" / "ray_lab.py"


def on_ray(store, accident):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    env.pop("RAY_ADDRESS", None)
    done = subprocess.run(
        [sys.executable, str(LAB), str(store), accident], env=env, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    return facts(play(tmp_path_factory.mktemp("once"), small_config(*EIGHT))[0])


def facts(store):
    """Seal the epoch; what its content hash is made of. Of `runs`, which names the code, the rest."""
    sd.seal(store, "e000000")
    sd.verify(store)
    tables = store.seal_document("e000000")["tables"]
    runs = store.sql("select shard_id, run_id, epoch, phase, config, config_hash, policies from runs order by shard_id")
    return {name: body["content_hash"] for name, body in tables.items() if name != "runs"}, runs.fetchall()


@pytest.mark.slow
def test_a_replica_killed_in_the_middle_is_replaced_and_the_store_is_that_of_one_process(once, tmp_path):
    found, shown = on_ray(tmp_path, "kill")
    assert found == {"committed": 8, "skipped": 0, "complete": True, "happened": 1, "restarts": 1}
    assert re.search(r"replica \d.1 \(process \d+\) is lost; [01] of its units are played again", shown)
    assert facts(sd.open(tmp_path)) == once


@pytest.mark.slow
def test_a_stopped_job_keeps_its_units_and_one_process_goes_on(once, tmp_path):
    found, _ = on_ray(tmp_path, "SIGTERM")
    assert (found["error"], found["code"]) == ("Preempted", 75)
    assert "the same command continues where it stopped" in found["message"]
    store, _, work = play(tmp_path, small_config(*EIGHT))
    assert len(work.skipped) >= 1
    assert len(work.committed) + len(work.skipped) == 8
    assert facts(store) == once


def units():
    from collect.dealing import deal, draw_tasks, lay_out

    slots = lay_out({"execution": 3}, groups_per_unit=1)
    return deal(slots, draw_tasks(load_tasks(small_config()), 3, seed=0, epoch=0), n_samples=2)


def test_a_unit_is_with_one_replica_and_comes_back_when_that_is_lost():
    async def story():
        dealer = Dealer(units())
        first, second = await dealer.take("a"), await dealer.take("b")
        assert (first.unit_id, second.unit_id) == ("u0000", "u0001")
        assert (await dealer.take("a")).unit_id == "u0002"
        waiting = asyncio.create_task(dealer.take("b"))
        await asyncio.sleep(0)
        assert not waiting.done()  # nothing is left, but what `a` holds may be lost
        assert await dealer.lost("a", ["u0002"]) == 1
        assert (await waiting).unit_id == "u0000"
        for unit_id in ("u0000", "u0001"):
            await dealer.done(unit_id)
        assert await dealer.take("b") is None
        assert await dealer.take("c") is None

    asyncio.run(story())


def test_a_closed_dealer_sends_everybody_home():
    async def story():
        dealer = Dealer(units()[:1])
        await dealer.take("a")
        waiting = [asyncio.create_task(dealer.take("b")), asyncio.create_task(dealer.closed())]
        await asyncio.sleep(0)
        await dealer.close()
        assert await asyncio.gather(*waiting) == [None, None]
        assert await dealer.take("a") is None

    asyncio.run(story())
