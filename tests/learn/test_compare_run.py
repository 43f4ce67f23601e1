"""`sera compare` for real: two methods from one stored epoch, killed on the way, repeated, reported."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SERA = [sys.executable, "-m", "sera_data"]
CHILD = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "DS_ACCELERATOR": "cpu"}


@pytest.fixture
def comparison(tmp_path):
    """A config on a copy of the example store: one update a cell, four tasks."""
    shutil.copytree(ROOT / "examples" / "store", tmp_path / "store")
    loop = {
        "policy": "pocket",
        "learn": {"schedule": "execution:1", "updates_per_collect": 1, "groups_per_update": 1},
    }
    body = {
        "name": "small",
        "loop": str(tmp_path / "loop.yaml"),
        "snapshot": {"store": str(tmp_path / "store"), "epoch": 0},
        "rows": {"rao": {"method": "rao"}, "rubric": {"method": "rubric_reward"}},
        "seeds": [1],
        "tasks": str(tmp_path / "tasks.jsonl"),
        "evaluation": str(ROOT / "configs" / "pocket_eval.yaml"),
        "protocols": {"t1": {"samples": 2, "limit": 4}},
        "contrasts": [{"name": "labels help", "better": "rao", "worse": "rubric"}],
        "resamples": 200,
    }
    (tmp_path / "loop.yaml").write_text(yaml.safe_dump(loop))
    (tmp_path / "compare.yaml").write_text(yaml.safe_dump(body))
    build = ["tasks", "build", "textcraft", "--worlds", "8000-8001", "--items-per-tier", "8", "--max-tier", "2"]
    build += ["--n", "4", "--seed", "1", "--split", "test", "--out", str(tmp_path / "tasks.jsonl")]
    subprocess.run([*SERA, *build], check=True, env=CHILD, stdout=subprocess.DEVNULL)
    return tmp_path


@pytest.mark.slow
def test_two_methods_are_trained_measured_and_compared(comparison):
    out = comparison / "out"
    command = [*SERA, "compare", "--config", str(comparison / "compare.yaml"), "--out", str(out), "--json"]
    first = subprocess.Popen(command, env=CHILD, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while first.poll() is None and not (out / "start" / "cell.json").exists():
        time.sleep(0.1)
    first.send_signal(signal.SIGTERM)
    _, words = first.communicate()
    assert first.returncode in (0, 75), words
    done = subprocess.run(command, env=CHILD, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + "".join(path.read_text() for path in out.glob("*/cell.log"))
    body = json.loads(done.stdout)
    by_row = {row["row"]: row for row in body["rows"]}
    assert by_row["start"]["success"]["t1"]["n_tasks"] == 4
    assert by_row["rao"]["spent"]["updates"] == 1
    assert by_row["rao"]["success"]["t1"]["from_start"]["n_seeds"] == 1
    assert body["contrasts"][0]["difference"]["n_tasks"] == 4
    assert "labels help" in (out / "compare.md").read_text()
    # a policy per cell, both one step after the start
    policies = {
        row: json.loads((out / f"{row}.s1" / "cell.json").read_text())["train"]["policy"] for row in ("rao", "rubric")
    }
    assert len(set(policies.values())) == 2
