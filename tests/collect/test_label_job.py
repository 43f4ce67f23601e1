"""Labels added to stored nodes: every vote a row, nothing twice, nothing else changed, whatever the judge does."""

import json
import os
import signal
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
from collect.labels import open_labeller
from sera_data.plan import claim_addition, read_plan

sys.path.insert(0, str(Path(__file__).parent))
from judge_lab import completion, endpoint, raw, say
from label_lab import Scripted, chosen, copied, judged, label, nodes

pytestmark = pytest.mark.usefixtures("no_keys")


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
