"""The program's verdict again as a label, and which labellers there are."""

import sys
from pathlib import Path

import pytest

import sera_data as sd
from collect.label_config import LabelConfig
from collect.labels import open_labeller
from collect.textcraft import TextCraft
from sera_data.errors import UsageError

sys.path.insert(0, str(Path(__file__).parent))
from label_lab import copied, label, nodes


@pytest.fixture
def store(tmp_path):
    return copied(tmp_path)


def test_the_program_says_again_what_it_said(store, monkeypatch):
    """A new version of the checker labels every node; an unchanged rule gives the values it gave while collecting."""
    assert label(store, "program").plans == []
    monkeypatch.setattr(TextCraft, "version", "net-gain-2")
    summary = label(store, "program")
    assert sum(summary.labels.values()) == len(nodes(store))
    versions = store.sql(
        "select a.value = b.value and a.details = b.details from labels a join labels b using (node_id)"
        " where a.version = 'net-gain-1' and b.version = 'net-gain-2'"
    ).fetchall()
    assert versions == [(True,)] * len(nodes(store))
    assert label(store, "program").plans == []
    sd.verify(store)


def test_what_a_world_cannot_check_is_an_invalid_label(store, monkeypatch):
    monkeypatch.setattr(TextCraft, "version", "net-gain-3")
    monkeypatch.setattr(TextCraft, "verdict", lambda self, start, end, targets, changes=(): None)
    summary = label(store, "program")
    assert summary.labels == {"invalid": len(nodes(store))}
    assert summary.reasons == {"the world cannot check this goal": len(nodes(store))}
    assert label(store, "program").plans == []


def _no_votes():
    return LabelConfig(labeller="rule:finish").settings()


def test_unknown_labellers_are_refused():
    with pytest.raises(UsageError, match="allowed: openai, program, rule"):
        open_labeller("kimi:x", settings=_no_votes())
    with pytest.raises(UsageError, match="allowed: finish, change"):
        open_labeller("rule:luck", settings=_no_votes())
    with pytest.raises(UsageError, match="takes no argument"):
        open_labeller("program:x", settings=_no_votes())
