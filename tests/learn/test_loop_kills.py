"""A real `sera loop` with the shipped pocket policy, killed with -9 in every phase and started again by its command.

The killed run ends with the store, the weights and the updates of a run that nobody touched.
"""

import contextlib
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sera_data as sd
from learn.config import LoopConfig
from learn.loop import Loop
from sera_data.cli import main
from sera_data.config import load_config

ROOT = Path(__file__).parents[2]
TINY = (
    "seed=5",  # wins and loses in its first group, so there is an update to kill
    "epochs=2",
    "learn_last=false",
    "margin=1.0",
    "collect.world.tasks={worlds: 1000-1003, max_tier: 2, n: 6, tier_mix: {2: 1.0}}",
    "collect.samples=4",
    "collect.deterministic=true",
    "collect.budgets={turns: [6, 5], depth: 1, context: 768}",
    "collect.delegation.k=4",
    "collect.groups_per_unit=1",
    "learn.groups_per_update=1",
    "learn.schedule=execution:1,rubric:1",
    "learn.updates_per_collect=2",
    "learn.engine.checkpoint_every=1",
)
KILLS = (
    ("store/shards/e000000.u*", "everything"),
    ("learn/checkpoints/c*", "the loop alone"),
    ("learn/policies/*", "everything"),
    ("store/plans/e000001.json", "the loop alone"),
)
"""What is there when the loop is killed, and which processes: its whole group, or the parent of the phase."""

UPDATES = 'select "update", stage, version_out, skip_reason, loss, grad_norm from updates order by 1'


def start(out):
    sets = [part for override in TINY for part in ("--set", override)]
    command = [sys.executable, "-m", "sera_data", "loop", "--config", str(ROOT / "configs" / "demo.yaml")]
    settings = {
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(ROOT),
    }
    with out.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--out", str(out), *sets, "--json"],
            env={**os.environ, **settings},
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )


def play_here(out):
    """The same loop with every phase in this process, which has imported what they need."""
    loop = Loop(load_config(LoopConfig, ROOT / "configs" / "demo.yaml", list(TINY)), out, run=phase)
    loop.open()
    loop.play()


def phase(arguments):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(printed.getvalue())


def killed(out, pattern, who):
    """Start the loop and kill it as soon as something matches; False when it ended before."""
    process = start(out)
    while process.poll() is None and not list(out.glob(pattern)):
        time.sleep(0.002)
    if process.poll() is not None:
        return False
    if who == "everything":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
    return True


def facts(out):
    """Content of every sealed directory, of every exported policy, and the updates.

    `runs` names the code, `updates` the snapshot that holds the time of a seal: of these the losses are compared.
    """
    store = sd.open(out / "store")
    sd.verify(store)
    found = {}
    for name in store.sealed_names():
        seal = store.seal_document(name)
        assert not seal["partial"]
        tables = {
            table: body["content_hash"] for table, body in seal["tables"].items() if table not in ("runs", "updates")
        }
        found[name] = (seal["shards"], tables)
    assert sorted(p.stem for p in (out / "store" / "plans").iterdir()) == sorted(found)
    for path in sorted(out.glob("learn/policies/v*/model.safetensors")):
        found[path.parent.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found, store.sql(UPDATES).fetchall()


@pytest.mark.slow
def test_killed_in_every_phase_it_ends_as_if_nothing_had_happened(tmp_path):
    straight, struck = tmp_path / "straight", tmp_path / "struck"
    play_here(straight)
    kills = sum(killed(struck, pattern, who) for pattern, who in KILLS)
    assert kills == len(KILLS)
    assert start(struck).wait() == 0, struck.with_suffix(".log").read_text()
    assert "Traceback" not in struck.with_suffix(".log").read_text()
    (before, updates), (after, again) = facts(straight), facts(struck)
    assert after == before
    assert again == updates
    assert {"e000000", "e000000.a001", "e000001"} <= set(after)
    assert max(version for _, _, version, *_ in updates) >= 1
    steps = json.loads((struck / "loop.json").read_text())["steps"]
    assert [(step["kind"], step["index"]) for step in steps] == [("collect", 0), ("learn", 0), ("collect", 1)]
