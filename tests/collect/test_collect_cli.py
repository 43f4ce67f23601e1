"""`sera collect` and `sera policy`: summaries, and one clear line for everything that is wrong."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import sera_data as sd
from collect.policy_directory import write_policy_json
from collect.task_file import write_tasks
from collect.tasks import load_tasks
from sera_data.cli import main
from tests.collect.job_lab import SMALL, small_config


@pytest.fixture
def arguments(tmp_path):
    tasks = tmp_path / "tasks.jsonl"
    write_tasks(tasks, load_tasks(small_config()))
    (tmp_path / "phase.yaml").write_text("world: {profile: strict}\nsamples: 1\nrubric: {for: []}\n")
    return ["--config", str(tmp_path / "phase.yaml"), "--tasks", str(tasks), "--store", str(tmp_path / "store")]


def fault(capsys, *arguments):
    code = main(["collect", *arguments])
    error = capsys.readouterr().err.strip()
    assert "\n" not in error
    assert "Traceback" not in error
    return code, error


def test_collects_seals_and_says_what_it_did(arguments, capsys, tmp_path):
    run = ["collect", *arguments, "--policy", "scripted:oracle", "--groups", "execution=2,warm=1", "--seal"]
    assert main([*run, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["trees"], summary["success"], summary["sealed"]) == (3, 1.0, True)
    assert summary["outcomes"] == {"finished": 3}
    store = sd.open(tmp_path / "store")
    [policies] = store.runs.pl()["policies"].unique().to_list()
    assert [(p["role"], p["name"]) for p in policies] == [("act", "scripted:oracle")]
    assert main(run) == 0
    assert "e000001" in capsys.readouterr().out


def test_dry_run_does_nothing(arguments, capsys, tmp_path):
    assert main(["collect", *arguments, "--policy", "scripted:oracle", "--groups", "execution=all", "--dry-run"]) == 0
    assert "trees: 8" in capsys.readouterr().out
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (["--set", "budgets.turn=3"], "unknown key 'budgets.turn'; allowed here: agents_per_tree"),
        (["--groups", "execution=9"], "too few tasks: execution=9 wants at least 9 different tasks, got 8"),
        (["--groups", "execution"], "--groups wants purpose=number"),
        (["--shard", "2/2"], "--shard wants i/n"),
        (["--policy", "scripted:nobody"], "no scripted policy 'nobody'; allowed:"),
        (["--policy", "nowhere"], "no policy 'nowhere'; allowed:"),
        (["--tasks", "nowhere.jsonl"], "task file not found: nowhere.jsonl"),
        (["--set", "world.name=textcraf"], "the config wants textcraf/strict"),
        (["--set", "world.profile=rao-42"], "is of textcraft/strict, the config wants textcraft/rao-42"),
        (["--set", "world.difficulties=[easy]"], "no task is left"),
        (["--set", "sampling.act.top_p=0.9"], "top_p=0.9 truncates"),
    ],
)
def test_wrong_use_is_exit_code_2(arguments, capsys, tmp_path, extra, says):
    base = [*arguments, "--policy", "scripted:oracle", "--groups", "execution=1"]
    code, error = fault(capsys, *base, *extra)
    assert says in error
    assert code == 2
    assert not list((tmp_path / "store").glob("plans/*"))


@pytest.mark.parametrize(
    ("line", "says"), [('{"task_id": "t0"', "not a JSON object"), ("[]", "a JSON object"), ("{}", "task_id")]
)
def test_malformed_task_line_is_named(arguments, capsys, tmp_path, line, says):
    with (tmp_path / "tasks.jsonl").open("a") as handle:
        handle.write(line + "\n")
    code, error = fault(capsys, *arguments, "--policy", "scripted:oracle", "--groups", "execution=1")
    assert code == 2
    assert "tasks.jsonl:9" in error
    assert says in error


def test_changed_policy_directory_is_refused(arguments, capsys, tmp_path):
    folder = tmp_path / "policy"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text("{}")
    write_policy_json(folder, name="p", version=3, style="terse")
    assert main(["policy", "show", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 3
    (folder / "model.safetensors").write_text("{ }")
    code, error = fault(capsys, *arguments, "--policy", str(folder), "--groups", "execution=1")
    assert code == 1
    assert "model.safetensors differs from policy.json" in error
    assert main(["policy", "show", str(folder)]) == 1
    assert main(["policy", "show", str(folder), "--no-verify"]) == 0


@pytest.mark.parametrize("command", [["collect"], ["eval"], ["policy", "show"]])
def test_help_has_an_example(command, capsys):
    assert main([*command, "--help"]) == 0
    assert "Example: sera" in " ".join(capsys.readouterr().out.split())


def command(path, *overrides):
    sets = [part for override in (*SMALL, *overrides) for part in ("--set", override)]
    return [sys.executable, "-m", "sera_data", "collect", "--store", str(path), *sets, "--json"]


def start(path, *overrides):
    return subprocess.Popen(command(path, *overrides), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "store"
    subprocess.run(command(path), check=True, capture_output=True, timeout=300)
    return facts(path)


def wait_for_shards(path, n, process):
    while process.poll() is None and len(list((path / "shards").glob("*"))) < n:
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
def test_a_signal_ends_the_command_with_its_code(tmp_path, number, code):
    process = start(tmp_path / "store", "samples=8")
    wait_for_shards(tmp_path / "store", 1, process)
    process.send_signal(number)
    _, error = process.communicate(timeout=120)
    assert process.returncode == code
    assert "the same command continues" in error
    assert "Traceback" not in error


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed_equals_uninterrupted(whole, tmp_path):
    killed = tmp_path / "killed"
    kills = 0
    for n in (0, 1, 3):
        process = start(killed)
        wait_for_shards(killed, n, process)
        time.sleep(0.05 * n)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
    assert kills >= 2
    subprocess.run(command(killed), check=True, capture_output=True, timeout=300)
    assert facts(killed) == whole


@pytest.mark.slow
def test_two_processes_at_once_equal_one(whole, tmp_path):
    both = tmp_path / "both"
    parts = [
        subprocess.Popen([*command(both), "--shard", f"{i}/2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for i in range(2)
    ]
    assert [part.wait(timeout=300) for part in parts] == [0, 0]
    assert facts(both) == whole


def facts(path):
    """Content of a sealed epoch: hash of every table; of `runs`, which names the code, its stable part."""
    store = sd.open(path)
    sd.seal(store, "e000000")
    sd.verify(store)
    tables = ("tasks", "nodes", "turns", "rubrics", "branches", "labels", "scores")
    stable = store.sql("select shard_id, config_hash, phase from runs order by shard_id").fetchall()
    return {name: table_hash(store, name) for name in tables}, stable


def table_hash(store, name):
    from schemas import TABLES
    from sera_data.canonical import sha256_text

    table = TABLES[name]
    frame = store.table(name).pl().select(table.stable_columns).sort(list(table.key))
    return sha256_text(frame.write_json())
