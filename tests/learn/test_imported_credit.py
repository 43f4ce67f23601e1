"""Imported episodes in the learner: without ids every group is refused by name, with declared log-probabilities not."""

import json

import pytest

import sera_data as sd
from learn.credit import compute_credit
from learn.method import open_method
from sera_data.import_rows import ImportOptions
from sera_data.importing import import_files

NODE = {"parent": None, "message": {"role": "user", "content": "3+4"}, "token_ids": [1, 2], "mask": [False, False]}
REPLY = {"parent": 0, "sampled": True, "token_ids": [3, 4], "mask": [False, True], "logprobs": [-0.5]}


def credit(tmp_path, form, rows, **options):
    file = tmp_path / "f.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    import_files(tmp_path / "s", [file], ImportOptions(form, **options))
    return compute_credit(sd.open(tmp_path / "s").connect(view="sealed"), open_method("rao"))


def chat(reply, success):
    messages = [{"role": "user", "content": "3+4"}, {"role": "assistant", "content": reply}]
    return {"messages": messages, "task_id": "sum", "success": success}


def trace(reply, reward):
    nodes = [NODE, {**REPLY, "message": {"role": "assistant", "content": reply}}]
    return {"nodes": nodes, "task": {"key": "sum"}, "rewards": {"r": {"score": reward}}}


def test_chats_are_refused_by_name(tmp_path):
    found = credit(tmp_path, "chat", [chat("7", True), chat("8", False)])
    assert found.groups("execution") == []
    ((group, reason),) = [(d.group_id, d.reason) for d in found.dropped]
    assert group == "0/" + sd.open(tmp_path / "s").sql("select task_id from tasks").fetchall()[0][0]
    assert reason == "not trainable: its credited turns have no token ids with log-probabilities"


@pytest.mark.parametrize("logprobs, groups", [("raw_logprobs", 0), ("processed_logprobs", 1)])
def test_traces_are_trained_only_with_declared_logprobs(tmp_path, logprobs, groups):
    found = credit(tmp_path, "verifiers", [trace("7", 1.0), trace("8", 0.0)], logprobs=logprobs)
    assert len(found.groups("execution")) == groups
    assert len(found.dropped) == 1 - groups
