"""Task lines that Parquet cannot hold, files that are no text, signals that a library turns into its own error."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from collect.interruption import Interrupted, Interruption, Struck
from collect.task_file import import_published, read_tasks
from collect.tasks import require_playable
from sera_data.canonical import sha256_json
from sera_data.cli import main
from sera_data.errors import ConfigError, UsageError

SPEC = {"world_seed": 1}
TASK = {
    "task_id": "t" + sha256_json(["textcraft", "strict", SPEC])[:16],
    "world": "textcraft",
    "profile": "strict",
    "split": "train",
    "difficulty": "tier1",
    "goal": "Goal: craft 1x a",
    "spec": SPEC,
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"goal": "a\ud800"}, "half a surrogate pair"),
        ({"family": "\udfff"}, "half a surrogate pair"),
        ({"seed": 10**30}, "must fit in 64 bits"),
    ],
)
def test_a_value_that_parquet_cannot_hold_names_its_line(tmp_path, change, words):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({**TASK, **change}))
    with pytest.raises(UsageError, match=rf"t\.jsonl:1: .*{words}"):
        read_tasks(path)


def test_a_file_that_is_no_task_file(tmp_path):
    (tmp_path / "deep").write_text("[" * 100_000)
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    for name in ("deep", "binary", "."):
        with pytest.raises(UsageError):
            read_tasks(tmp_path / name)


def test_a_published_file_where_tasks_are_wanted_names_the_import(capsys, tmp_path):
    published = Path(__file__).parents[1] / "data" / "textcraft_synth" / "val.jsonl"
    for command in (["collect", "--policy", "scripted:oracle"], ["eval", "run", "--policy", "scripted:oracle"]):
        assert main([*command, "--tasks", str(published), "--store", str(tmp_path / "store")]) == 2
        err = capsys.readouterr().err
        assert f"{published}:1: a record of a published TextCraft-Synth file" in err
        assert f"sera tasks import textcraft {published} --out" in err
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (TASK, "a task already.*sera collect --tasks"),
        ({"task_id": "x", "task_family": "conflict"}, "TextWorld-Sync.*import textworld"),
    ],
)
def test_an_import_of_the_wrong_file_says_what_it_is(tmp_path, line, words):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(line))
    with pytest.raises(UsageError, match=rf"t\.jsonl:1: .*{words}"):
        import_published(path)


def library_call():
    """What a library does that swallows the error of a signal handler."""
    try:
        signal.raise_signal(signal.SIGINT)
    except Struck:
        msg = "Query interrupted"
        raise RuntimeError(msg) from None


def test_a_signal_outweighs_what_the_struck_library_raises():
    with pytest.raises(Interrupted), Interruption().active():
        library_call()


class Picky:
    """A world that starts only from a spec with a seed."""

    def reset(self, task):
        if not task.spec.get("world_seed"):
            msg = "no seed"
            raise ValueError(msg)


def test_a_task_that_its_world_cannot_start_is_refused_before_a_plan_is_claimed(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(TASK))
    tasks = read_tasks(path)
    require_playable(tasks, Picky(), source="t.jsonl")
    with pytest.raises(ConfigError, match=rf"t\.jsonl: task {TASK['task_id']} cannot be played .*no seed"):
        require_playable([replace(tasks[0], spec={})], Picky(), source="t.jsonl")
