"""Labels added to stored nodes: every vote a row, nothing twice, nothing else changed, whatever the judge does."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sera_data as sd
from collect.job import Share
from collect.label_config import LabelConfig
from collect.label_job import open_elsewhere, run_labels
from collect.label_selection import select
from collect.labels import LabellerRefused, Opinion, open_labeller
from collect.textcraft import TextCraft
from sera_data.errors import StoreError, UsageError
from sera_data.plan import claim_addition, read_plan

sys.path.insert(0, str(Path(__file__).parent))
from job_lab import play, small_config
from judge_lab import completion, endpoint, half, hang, raw, say
from label_lab import copied, judged, label, nodes


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("SERA_JUDGE_KEY", "OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(tmp_path):
    return copied(tmp_path)


def test_every_vote_is_a_row(store):
    before = sd.content_hash(store, "e000000")
    garbage = raw(200, completion("no idea"))

    def answer(handler):
        seed = handler.server.requests[-1][1]["seed"]
        (say(True, "salt is there"), say(False), garbage)[seed % 3](handler)

    with endpoint(answer) as server:
        spec = f"openai:m-1@{server.url}"
        summary = label(store, spec, votes=3, temperature=0.7, concurrency=1, body={"top_k": 5})
        asked = server.requests
    rows = judged(store)
    assert len(rows) == len(asked) == 3 * len(nodes(store)) == sum(summary.labels.values())
    assert [row["attempt"] for row in rows] == [0, 1, 2] * len(nodes(store))
    for row in rows:
        params = json.loads(row["params"])
        sampling = {"temperature": 0.7, "max_tokens": 1024, "seed": params["seed"], "top_k": 5}
        assert params == {"model": "m-1", "url": server.url, **sampling}
        expected = (1.0, 0.0, None)[params["seed"] % 3]
        assert (row["value"], row["valid"]) == (expected, expected is not None)
        assert (row["source"], row["kind"], row["use"], row["inclusion_probability"]) == ("m-1", "judge", "train", 1.0)
        assert row["raw_text"]
        assert (row["prompt_tokens"], row["completion_tokens"]) == (120, 9)
        assert row["latency_s"] > 0
        assert len(row["prompt_sha256"]) == 64
        details = json.loads(row["details"])
        assert (details["served_model"], details["tries"]) == ("served-1", 1)
        if row["valid"]:
            assert row["error"] is None
            assert details["reason"] in ("salt is there", "it is shown")
        else:
            assert row["error"] == "no JSON object in the reply"
            assert row["raw_text"] == "no idea"
    assert len({json.loads(row["params"])["seed"] for row in rows}) == len(rows)
    assert {row["value"] for row in rows} == {1.0, 0.0, None}
    assert summary.sealed == ["e000000.a001"]
    sd.verify(store)
    assert sd.content_hash(store, "e000000") == before
    costs = store.sql(
        "select sum(n_turns), sum(n_prompt_tokens), sum(n_completion_tokens) from costs where role = 'judge'"
    )
    assert costs.fetchall() == [(len(rows), 120 * len(rows), 9 * len(rows))]
    runs = store.sql("select phase, policies[1].role, policies[1].name from runs where phase = 'label'").fetchall()
    assert set(runs) == {("label", "judge", "m-1")}


def test_the_same_command_adds_nothing_and_more_votes_add_the_missing(store):
    with endpoint(say(True)) as server:
        spec = f"openai:m-1@{server.url}"
        label(store, spec)
        again = label(store, spec)
        assert (again.plans, sum(again.labels.values())) == ([], 0)
        assert len(server.requests) == len(nodes(store))
        assert chosen(store, spec, temperature=0.5)[0] == set(nodes(store))  # another way of asking: votes of its own
        more = label(store, spec, votes=3)
        assert sum(more.labels.values()) == 2 * len(nodes(store))
        assert label(store, spec, votes=2).plans == []
    sd.verify(store)


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


class Scripted:
    """A labeller that says yes, until it has said so `most` times: then it breaks."""

    kind, concurrency = "judge", 1

    def __init__(self, most=10**9):
        self.most, self.subjects, self.closed = most, [], False

    def signature(self, world):
        return "scripted", f"{world.name}-1"

    async def label(self, subject, *, attempt):
        if len(self.subjects) >= self.most:
            msg = "broken"
            raise RuntimeError(msg)
        self.subjects.append(subject)
        return Opinion(value=1.0)

    async def close(self):
        self.closed = True


def test_a_broken_run_keeps_its_units_and_is_continued(store):
    first, second = Scripted(7), Scripted()
    settings = {"nodes_per_unit": 3, "seed": 4}
    with pytest.raises(RuntimeError, match="broken"):
        label(store, "rule:finish", labeller=first, **settings)
    assert first.closed
    assert len(judged(store)) == 6
    summary = label(store, "rule:finish", labeller=second, **settings)
    assert summary.plans == ["e000000.a001"]
    assert len(judged(store)) == len(nodes(store))
    assert len(second.subjects) == len(nodes(store)) - 6
    sd.verify(store)


def test_parts_join_one_plan(store):
    settings = {"nodes_per_unit": 2}
    first = label(store, "rule:finish", part=Share(0, 2), **settings)
    assert (first.plans, first.sealed) == (["e000000.a001"], [])
    second = label(store, "rule:finish", part=Share(1, 2), **settings)
    assert (second.plans, second.sealed) == (["e000000.a001"], ["e000000.a001"])
    assert len(judged(store)) == len(nodes(store))


def test_runs_that_began_at_the_same_moment_give_no_vote_twice(store):
    """Two selections see the same missing votes; the plan that was claimed later leaves them to the earlier one."""
    mine, other = (LabelConfig(labeller="rule:finish", name=name) for name in ("mine", "other"))
    labeller = open_labeller("rule:finish", settings=mine.settings())
    units = select(store, mine, labeller).units[0]
    late = select(store, other, labeller).units[0]
    for config, votes in ((mine, units), (other, late)):
        name = config.run_id
        claim_addition(store, 0, run_id=name, phase="label", config_hash=config.identity(), units=votes)
    done = run_labels(store, other, labeller, quiet=True)
    assert (sum(done.labels.values()), done.sealed) == (0, ["e000000.a002"])
    done = run_labels(store, mine, open_labeller("rule:finish", settings=mine.settings()), quiet=True)
    assert (sum(done.labels.values()), done.sealed) == (len(nodes(store)), ["e000000.a001"])
    sd.verify(store)


def test_an_open_plan_counts_as_given(store):
    with pytest.raises(RuntimeError):
        label(store, "rule:finish", labeller=Scripted(0))
    assert read_plan(store, "e000000.a001").committed() == set()
    other = Scripted()
    label(store, "rule:change", labeller=other)  # other settings, same signature
    assert other.subjects == []
    elsewhere = open_elsewhere(store, LabelConfig(labeller="rule:change"))
    assert [text.split()[0] for text in elsewhere] == ["e000000.a001"]
    sd.seal(store, "e000000.a001", partial=True)  # given up: its votes are missing again
    label(store, "rule:change", labeller=other)
    assert len(other.subjects) == len(nodes(store))


def test_address_and_patience_do_not_name_a_run():
    one = LabelConfig(labeller="openai:m@http://a:1/v1")
    two = LabelConfig(labeller="openai:m@http://b:2/v1", timeout_s=9.0, retries=0, concurrency=1)
    assert one.identity() == two.identity()
    assert one.identity() != LabelConfig(labeller="openai:m@http://a:1/v1", votes=2).identity()
    assert one.identity() != LabelConfig(labeller="openai:n@http://a:1/v1").identity()


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
from label_lab import label
import sera_data as sd
label(sd.open({store!r}), {spec!r}, nodes_per_unit=2, concurrency=2)
"""


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_with_every_vote_once(store):
    def slow(handler):
        handler.server.stopped.wait(0.04)
        say(True)(handler)

    with endpoint(slow) as server:
        spec = f"openai:m-1@{server.url}"
        code = KILLED.format(here=str(Path(__file__).parent), store=str(store.path), spec=spec)
        kills = 0
        while True:
            asked, process = len(server.requests), subprocess.Popen([sys.executable, "-c", code])
            while process.poll() is None and (kills >= 4 or len(server.requests) < asked + 5):
                time.sleep(0.01)
            if process.poll() is not None:
                break
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    assert (process.returncode, kills) == (0, 4)
    rows = judged(store)
    assert [(row["node_id"], row["attempt"]) for row in rows] == [(node, 0) for node in nodes(store)]
    assert store.sealed_names() == ["e000000", "e000000.a001"]
    sd.verify(store)


def chosen(store, spec="rule:finish", **settings):
    """Nodes that `sera label` would label now, and with which probability."""
    config = LabelConfig(labeller=spec, **settings)
    found = select(store, config, open_labeller(spec, settings=config.settings()))
    units = [unit for units in found.units.values() for unit in units]
    return {node for unit in units for node, _, _ in unit["votes"]}, {unit["inclusion_probability"] for unit in units}


EASY = """
select n.node_id from nodes n join tasks t using (task_id) left join verdicts v using (node_id)
where n.on_path and t.difficulty = 'easy' or v.value = 0
"""
FILTERS = [
    ({}, "select node_id from nodes"),
    ({"depths": (1,)}, "select node_id from nodes where depth = 1"),
    ({"purposes": ("rubric",)}, "select node_id from nodes where purpose = 'rubric'"),
    ({"where": "on_path and difficulty = 'easy' or verdict = 0"}, EASY),
    ({"where": "verdict_kind is null"}, "select node_id from nodes where false"),
    ({"only": "missing"}, "select node_id from nodes where false"),
    ({"where": "depth = 0", "depths": (1, 2)}, "select node_id from nodes where false"),
]


def test_filters_choose_nodes(store):
    for settings, query in FILTERS:
        wanted = {row[0] for row in store.sql(query).fetchall()}
        assert chosen(store, **settings)[0] == wanted, settings
    assert len({len(chosen(store, **settings)[0]) for settings, _ in FILTERS}) > 3


def test_a_condition_that_is_none_is_refused(store):
    for where in ("no_such_column = 1", "depth = 1; drop table nodes", "select", "depth +"):
        with pytest.raises(UsageError, match="--where"):
            chosen(store, where=where)
    assert store.sealed_names() == ["e000000"]


def test_a_share_is_the_same_nodes_whenever_it_is_asked(store):
    half_of, probability = chosen(store, share=0.5, seed=3)
    assert 0 < len(half_of) < len(nodes(store))
    assert probability == {0.5}
    assert half_of < chosen(store, share=0.7, seed=3)[0]
    assert half_of != chosen(store, share=0.5, seed=4)[0]
    label(store, "rule:finish", share=0.5, use="audit", seed=3)
    assert {row["node_id"] for row in judged(store)} == half_of
    assert {row["inclusion_probability"] for row in judged(store)} == {0.5}
    assert chosen(store, share=0.5, use="audit", seed=3) == (set(), set())
    assert store.sql("select count(*) from verdicts where kind = 'judge'").fetchall() == [(0,)]


def test_a_cap_is_a_random_sample_of_known_share(store):
    label(store, "rule:finish", max_labels=5, votes=2)
    rows = judged(store)
    assert [row["attempt"] for row in rows] == [0, 1, 0, 1]
    assert {row["inclusion_probability"] for row in rows} == {2 / len(nodes(store))}
    assert chosen(store, max_labels=5, votes=2) == (set(), set())


def test_audit_votes_do_not_stand_for_train_votes(store):
    label(store, "rule:finish", use="audit")
    label(store, "rule:finish", use="train")
    rows = judged(store)
    assert [(row["use"], row["attempt"]) for row in rows] == [("audit", 0), ("train", 1)] * len(nodes(store))


class Mute(Scripted):
    """A labeller that never reaches a verdict."""

    async def label(self, subject, *, attempt):
        return Opinion(value=None, error="silence")


def test_attempts_end_somewhere(store):
    settings = {"votes": 64, "max_labels": 64, "again": "invalid"}
    for _ in range(2):
        label(store, "rule:finish", labeller=Mute(), **settings)
    assert {row["attempt"] for row in judged(store)} == set(range(128))
    with pytest.raises(UsageError, match="attempts 0 to 127"):
        label(store, "rule:finish", labeller=Mute(), **settings)


def _no_votes():
    return LabelConfig(labeller="rule:finish").settings()


def test_only_sealed_epochs_are_labelled(tmp_path):
    store, job, _ = play(tmp_path / "store", small_config("groups={execution: 1}"))
    with pytest.raises(StoreError, match="none is sealed yet"):
        label(store, "rule:finish")
    sd.seal(store, job.plan.name)
    with pytest.raises(StoreError, match="no sealed epoch 7; sealed are 0"):
        label(store, "rule:finish", epochs=(7,))
    label(store, "rule:finish", epochs=(0,))
    assert judged(store)


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


def test_unknown_labellers_are_refused():
    with pytest.raises(UsageError, match="allowed: openai, program, rule"):
        open_labeller("kimi:x", settings=_no_votes())
    with pytest.raises(UsageError, match="allowed: finish, change"):
        open_labeller("rule:luck", settings=_no_votes())
    with pytest.raises(UsageError, match="takes no argument"):
        open_labeller("program:x", settings=_no_votes())
