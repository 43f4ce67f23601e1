"""A judge that fails leaves invalid labels with their reasons, which can be asked again, and hurts no other vote."""

import json
import socket
import sys
from pathlib import Path

import pytest

import sera_data as sd
from collect.labels import LabellerRefused

sys.path.insert(0, str(Path(__file__).parent))
from judge_lab import completion, endpoint, half, hang, raw, say
from label_lab import copied, judged, label, nodes

pytestmark = pytest.mark.usefixtures("no_keys")


@pytest.fixture
def store(tmp_path):
    return copied(tmp_path)


def _refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


FAULTS = {
    "garbage": (raw(200, completion("Sure! I think it went fine.")), "no JSON object in the reply"),
    "half a verdict": (raw(200, completion('{"success": true, "rea')), "no complete JSON object"),
    "half a JSON": (raw(200, completion("yes")[:50]), "the reply is not JSON"),
    "broken off": (half, "RemoteProtocolError"),
    "500": (raw(500, b"oops"), "HTTP 500 (2 tries)"),
    "400": (raw(400, b"context too long"), "HTTP 400"),
    "429 for ever": (raw(429, b"slow down"), "HTTP 429 (2 tries)"),
    "not UTF-8": (raw(200, b"\xff\xfe{"), "the reply is not UTF-8"),
    "hanging": (hang, "no reply within 1 s (2 tries)"),
    "surrogates": (raw(200, completion('{"success": "\\ud800", "reason": "\\udfff"}')), "must be true or false"),
    "only thoughts": (raw(200, completion("<think>hm")), "inside its thinking"),
    "well": (say(True), None),
}


def test_a_failed_judge_leaves_one_invalid_label_with_its_reason_and_hurts_no_other(store):
    fault_of = {}

    def answer(handler):
        seed = handler.server.requests[-1][1]["seed"]
        with handler.server.lock:
            fault = fault_of.setdefault(seed, list(FAULTS)[len(fault_of) % len(FAULTS)])
        FAULTS[fault][0](handler)

    with endpoint(answer) as server:
        summary = label(store, f"openai:m-1@{server.url}", max_labels=len(FAULTS), timeout_s=1.0, concurrency=1)
    rows = judged(store)
    assert len(rows) == len(FAULTS)
    for row in rows:
        error = FAULTS[fault_of[json.loads(row["params"])["seed"]]][1]
        if error is None:
            assert (row["valid"], row["value"], row["error"]) == (True, 1.0, None)
        else:
            assert (row["valid"], row["value"]) == (False, None)
            assert error in row["error"]
    assert summary.labels == {"invalid": len(FAULTS) - 1, "success": 1}
    assert sum(summary.reasons.values()) == len(FAULTS) - 1
    sd.verify(store)
    judge_alone = "select count(*) from labels where kind = 'judge' and valid"
    assert store.sql(judge_alone).fetchall() == [(1,)]


def test_nobody_there_leaves_invalid_labels_that_can_be_asked_again(store):
    label(store, f"openai:m-1@{_refused()}", max_labels=3)
    assert all(row["error"].startswith("ConnectError") for row in judged(store))
    with endpoint(say(False)) as server:
        spec = f"openai:m-1@{server.url}"
        assert label(store, spec, max_labels=3).plans == []
        label(store, spec, max_labels=3, again="invalid")
        assert label(store, spec, max_labels=3, again="invalid").plans == []
    rows = judged(store)
    assert [(row["attempt"], row["valid"]) for row in rows] == [(0, False), (1, True)] * 3
    sd.verify(store)


def test_a_passing_fault_costs_nothing(store):
    with endpoint(raw(429, b""), say(True)) as server:
        label(store, f"openai:m-1@{server.url}", concurrency=1)
    rows = judged(store)
    assert all(row["value"] == 1.0 for row in rows)
    assert sorted(json.loads(row["details"])["tries"] for row in rows)[-2:] == [1, 2]


def test_a_refused_key_stops_before_anything_is_written(store, monkeypatch):
    with endpoint(raw(401, b"who are you")) as server:
        spec = f"openai:m-1@{server.url}"
        with pytest.raises(LabellerRefused, match="HTTP 401"):
            label(store, spec)
        assert judged(store) == []
        server.answers = [say(True)]
        summary = label(store, spec)
    assert summary.plans == ["e000000.a001"]
    assert len(judged(store)) == len(nodes(store))
