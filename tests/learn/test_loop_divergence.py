"""A real `sera loop` whose scorer grows more generous from epoch to epoch: it ends by itself, with exit code 3.

The scorer is a policy of its own, found through an entry point by every process of the loop. All else is real: pocket
agents, scripted rubrics, the program's labels, learn phases, and the audit that sees scores run away from labels.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sera_data as sd
from analysis.audit import run_audit

ROOT = Path(__file__).parents[2]
STEP = 0.3
"""What the scorer adds to every score per sealed epoch of the store."""

SCORER = f"""
import json
from pathlib import Path

from collect.policy import Completion, Identity


def open_policy(argument, *, options):
    return Generous(Path(argument))


class Generous:
    renderer, trainable = None, False

    def __init__(self, store):
        self.identity = Identity("generous", "scripted", 0)
        self.level = 0.1 + {STEP} * len(list((store / "epochs").glob("e??????")))

    async def complete(self, request):
        items = [self.level for _ in request.facts["rubric"].items]
        text = json.dumps({{"success": True, "criterion_scores": items, "final_score": self.level}})
        return Completion(text, None, None, "stop", "none", 0)

    def release(self, session):
        pass

    async def close(self):
        pass
"""
TINY = (
    "epochs=5",
    "learn_last=false",
    "collect.world.tasks={worlds: 1000-1015, max_tier: 2, n: 24, tier_mix: {2: 1.0}}",
    "collect.samples=4",
    "collect.budgets={turns: [6, 5], depth: 1, context: 768}",
    "collect.delegation.k=4",
    "collect.policy.roles.writer=scripted:delegating_oracle",
    "learn.method=rao",
    "learn.schedule=execution:1",
    "learn.groups_per_update=5",
    "learn.updates_per_collect=1",
)


@pytest.fixture
def environment(tmp_path):
    """The environment of a machine on which the package `generous` is installed."""
    about = tmp_path / "installed" / "generous-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: generous\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[sera.policies]\ngenerous = generous:open_policy\n")
    (tmp_path / "installed" / "generous.py").write_text(SCORER)
    path = os.pathsep.join([str(tmp_path / "installed"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "HF_HUB_OFFLINE": "1"}


def play(out, environment, *more):
    sets = [*TINY, f"collect.policy.roles.scorer=generous:{out / 'store'}", *more]
    command = [sys.executable, "-m", "sera_data", "loop", "--config", str(ROOT / "configs" / "demo.yaml")]
    command += ["--out", str(out), "--json", *(part for text in sets for part in ("--set", text))]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_scorer_that_grows_generous_ends_the_loop(tmp_path, environment):
    out = tmp_path / "run"
    ended = play(out, environment)
    assert ended.returncode == 3, ended.stderr
    report = json.loads(ended.stdout)
    found = report["stopped"]
    assert (found["epochs"], found["rising"]) == ([0, 1, 2], True)
    assert found["low"] > 0
    steps = json.loads((out / "loop.json").read_text())["steps"]
    assert [(step["kind"], step["index"]) for step in steps] == [
        ("collect", 0), ("learn", 0), ("collect", 1), ("learn", 1), ("collect", 2)
    ]  # fmt: skip
    store = sd.open(out / "store")
    scores = dict(store.sql("select epoch, avg(final_score) from scores where valid group by epoch").fetchall())
    assert [scores[epoch] for epoch in range(3)] == pytest.approx([0.1, 0.1 + STEP, 0.1 + 2 * STEP])
    assert "score minus label rose over two epochs" in ended.stderr.splitlines()[-1]
    assert run_audit(store, reps=200).divergence.rising
    again = play(out, environment)
    assert (again.returncode, json.loads(again.stdout)["stopped"]) == (3, found)  # it does not go on by being repeated
    assert json.loads((out / "loop.json").read_text())["steps"] == steps
