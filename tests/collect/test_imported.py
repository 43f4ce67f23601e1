"""Imported episodes go to a judge like any other, and to nothing else."""

import json
import sys
from pathlib import Path

import pytest

import sera_data as sd
from collect.imported import Imported
from collect.world import Action, Agent
from collect.worlds import open_world
from sera_data.cli import main
from sera_data.import_rows import ImportOptions
from sera_data.importing import FORMS, import_files

sys.path.insert(0, str(Path(__file__).parent))
from judge_lab import endpoint, say

CHAT = [
    {"role": "user", "content": "what is 3+4?"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "add", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c", "content": "seven"},
    {"role": "assistant", "content": "It is 7."},
]


def test_every_form_is_a_profile():
    assert tuple(FORMS) == Imported.profiles
    with pytest.raises(ValueError, match="no profile 'x'"):
        Imported("x")


def test_it_cannot_be_played():
    world = open_world("imported", profile="chat")
    state, event = world.apply("{}", Agent("n", 0, None), Action("look"))
    assert (state, event.ok) == ("{}", False)
    with pytest.raises(ValueError, match="cannot be played"):
        world.check_targets("{}", {})
    with pytest.raises(ValueError, match="has no state"):
        world.load('{"a":1}')
    assert world.verdict("{}", "{}", None) is None


def test_a_judge_sees_what_was_said(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "c.jsonl").write_text(json.dumps({"messages": CHAT}) + "\n")
    import_files(tmp_path / "s", [tmp_path / "c.jsonl"], ImportOptions("chat"))
    with endpoint(say(True)) as server:
        assert main(["label", str(tmp_path / "s"), "--judge", f"openai:m-1@{server.url}"]) == 0
        (request,) = server.requests
    shown = json.dumps(request)
    for text in ("what is 3+4?", "seven", "It is 7."):
        assert text in shown
    store = sd.open(tmp_path / "s")
    assert store.sql("select kind, value from labels").fetchall() == [("judge", 1.0)]
    assert store.sql("select success from trees").fetchall() == [(1.0,)]
    capsys.readouterr()
