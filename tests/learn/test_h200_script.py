"""The script of the whole experiment: its syntax, its rules, and a run from the first line to the last on a CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import sera_data

ROOT = Path(__file__).parents[2]
SCRIPT, RULES = ROOT / "runs" / "h200_textcraft.sh", ROOT / "runs" / "stop_rules.sql"
STORE = ROOT / "examples" / "store"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="scripts are not part of an installed package")


def rules(change=""):
    with sera_data.open(STORE).connect() as connection:
        tables = {name: connection.sql(f"from {name}").to_arrow_table() for name in ("nodes", "rubrics", "updates")}
    import duckdb

    own = duckdb.connect()
    for name, table in tables.items():
        own.register("given", table)
        own.execute(f"create table {name} as from given")
    own.execute(change)
    return {rule: fired for rule, _, _, _, fired in own.sql(RULES.read_text(encoding="utf-8")).fetchall()}


def test_the_script_is_well_formed():
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    assert os.access(SCRIPT, os.X_OK)


def test_a_sound_store_fires_no_rule_and_each_fault_its_own():
    assert not any(rules().values())
    assert len(rules()) == 6
    faults = {
        "update nodes set outcome = 'infra_error' where parent_id is null": "share of trees lost to infrastructure",
        "update nodes set outcome = 'truncated'": "share of trees cut off",
        "update rubrics set valid = false": "share of valid rubrics",
        "update updates set ess = 0.1": "effective sample size",
        "update updates set clip_share = 0.2": "share of clipped ratios",
        "update updates set entropy = 0.01 where epoch = 1": "entropy beside the first epoch's",
    }
    for change, rule in faults.items():
        assert [name for name, fired in rules(change).items() if fired] == [rule]
    assert "effective sample size" not in rules("delete from updates")  # a value that is not there fires nothing


def tiny(tmp_path):
    """The configuration of the experiment with the model, the tasks and the sizes of a laptop."""
    body = yaml.safe_load((ROOT / "configs" / "h200_textcraft.yaml").read_text(encoding="utf-8"))
    body |= {"engine": "transformers", "processes": {"collect": 2, "learn": 2}, "epochs": 1, "margin": 1.0}
    collect, learn = body["collect"], body["learn"]
    tasks = {"worlds": "1000-1007", "max_tier": 2, "n": 16, "tier_mix": {2: 1.0}}
    collect["world"] = {"name": "textcraft", "profile": "strict", "tasks": tasks}
    collect |= {"style": "terse", "dialect": "json", "samples": 4, "policy": {}}
    collect["budgets"] = {"turns": [9, 9], "depth": 1, "context": 1024}
    for role, tokens in (("act", 64), ("writer", 96), ("scorer", 48)):
        collect["sampling"][role]["max_tokens"] = tokens
    collect["rubric"]["attempts"] = 1
    learn |= {"schedule": "execution:1", "updates_per_collect": 1, "groups_per_update": 4, "engine": {"zero": 0}}
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return path


def environment(tmp_path, **more):
    sera = tmp_path / "bin" / "sera"  # the one of this environment, whatever is installed beside it
    sera.parent.mkdir(exist_ok=True)
    sera.write_text(f'#!/bin/sh\nexec {sys.executable} -m sera_data "$@"\n')
    sera.chmod(0o755)
    (sera.parent / "python").unlink(missing_ok=True)
    (sera.parent / "python").symlink_to(sys.executable)
    return {
        **os.environ,
        "PATH": f"{sera.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
        "CONFIG": str(tiny(tmp_path)),
        "MODEL": str(ROOT / "collect" / "pocket"),
        "ENGINE": "transformers",
        "PROTOCOL": "held-out-small",
        "LIMIT": "2",
        "EVERY": "1",
        "CHECK": "--trees 1",
        "MACHINE": "--gpu-memory 24 --rate collect=100 --rate learn=100",
        **more,
    }


@pytest.mark.slow
def test_the_whole_experiment_runs_on_a_cpu_and_stops_by_its_rules(tmp_path):
    out = tmp_path / "run"
    command = ["bash", str(SCRIPT), str(out)]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    curve = json.loads((out / "curve.json").read_text())
    assert [row["version"] for row in curve] == [0, 1]
    assert all(0 <= row["success"] <= 1 for row in curve)
    assert json.loads((out / "plan.measured.json").read_text())["sources"]["use of trees"] == "measured"
    assert (out / "audit.html").stat().st_size > 10_000
    with sera_data.open(out / "loop" / "store").connect() as connection:
        collectors, trained = connection.execute(
            "select (select count(distinct pid) from runs where phase = 'collect'),"
            " (select count(*) from updates where skip_reason is null)"
        ).fetchone()
    assert (collectors, trained) == (2, 1)
    before = (out / "loop" / "loop.json").read_bytes()
    again = environment(tmp_path, PATIENCE="1", RISE="1.1")  # a rise that nothing reaches
    stopped = subprocess.run(command, env=again, capture_output=True, text=True, check=False)
    assert stopped.returncode == 3, stopped.stderr[-4000:]
    assert "stopped: success" in stopped.stderr
    assert (out / "loop" / "loop.json").read_bytes() == before  # nothing was played twice
