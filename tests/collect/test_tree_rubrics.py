"""Rubrics and scores: order, secrecy, attempts, what a scorer may see."""

from __future__ import annotations

import json

import pytest

from collect.policy import Completion, PolicyError
from collect.services import Services
from collect.settings import Budgets, DelegationSettings, RubricSettings
from collect.tree import run_tree
from collect.world import Verdict
from schemas import rubric_from_json
from sera_data.errors import UsageError
from tests.collect.tree_lab import RUBRIC, SCORE, Fake, Pot, call, done, plan, play, script

TURNS = {
    "": [call("delegate", targets={"a": 1}), done()],
    "/t0d0b0": [call("add", item="a", n=1), done("made")],
}
EIGHT = DelegationSettings(mode="counterfactual")


def test_the_rubric_is_frozen_before_the_child_and_never_shown_to_it():
    tree = play(script(TURNS), delegation=EIGHT)
    rubric = tree.rubrics[0]
    assert rubric["rubric_sha256"] == rubric_from_json(RUBRIC).sha256()
    assert rubric["rubric_id"] == tree.branches[0]["delegation_id"] + "~writer~0~0"
    starts = {n["order_start"] for n in tree.nodes if n["depth"] == 1}
    assert starts == {rubric["order_stamp"] + 1}
    turn = next(t for t in tree.turns if t["kind"] == "rubric")
    assert (turn["node_id"], turn["step"], turn["base_turn"]) == (tree.root.tree_id, None, None)
    assert turn["order_stamp"] < rubric["order_stamp"]
    for request in tree.policies["act"].requests:
        assert not any("SECRET-GATE" in m.content for m in request.messages)
        assert "SECRET-GATE" not in repr({k: v for k, v in request.facts.items() if k != "world"})
    assert all("SECRET-GATE" in r.messages[1].content for r in tree.policies["scorer"].requests)


def test_every_branch_is_scored_by_the_one_rubric():
    tree = play(script(TURNS), delegation=EIGHT)
    assert len(tree.rubrics) == 1
    assert [s["node_id"] for s in tree.scores] == [b["node_id"] for b in tree.branches]
    assert {s["rubric_id"] for s in tree.scores} == {tree.rubrics[0]["rubric_id"]}
    ends = {n["node_id"]: n["order_end"] for n in tree.nodes}
    assert all(s["order_stamp"] > ends[s["node_id"]] for s in tree.scores)
    assert all(s["weighted_score"] == pytest.approx(0.875) and s["final_score"] == 0.9 for s in tree.scores)


def test_a_scorer_prompt_holds_no_verdict_of_the_environment():
    tree = play(script(TURNS), delegation=EIGHT)
    assert any("MARKER-LABEL" in label["details"] for label in tree.labels)
    assert any("MARKER-DELTA" in (c["delta"] or "") for t in tree.turns for c in t["tool_calls"])
    for request in tree.policies["scorer"].requests:
        text = "\n".join(m.content for m in request.messages)
        assert "MARKER" not in text
        for word in ("reward", "label", "finished", "not_finished", "value"):
            assert word not in text
        assert "Finish: yes" in text
        assert 'Gained: {"a":1}' in text


def test_a_label_never_changes_a_scorer_prompt():
    class Sour(Pot):
        def verdict(self, start, end, targets):
            return Verdict(False, {"no": "never"})

    sweet, sour = play(script(TURNS)), play(script(TURNS), world=Sour())
    assert [x["value"] for x in sweet.labels] != [x["value"] for x in sour.labels]
    prompts = [[r.messages for r in tree.policies["scorer"].requests] for tree in (sweet, sour)]
    assert prompts[0] == prompts[1]


def test_writer_and_scorer_have_the_same_number_of_attempts_and_all_are_rows():
    writes = iter(["no", json.dumps(RUBRIC)])
    scores = iter(['{"success":true,"final_score":0}', json.dumps(SCORE)])
    tree = play(
        script(TURNS),
        writer=Fake("writer", lambda r: next(writes)),
        scorer=Fake("scorer", lambda r: next(scores)),
        rubric=RubricSettings(attempts=2),
    )
    assert [(r["attempt"], r["valid"]) for r in tree.rubrics] == [(0, False), (1, True)]
    assert tree.rubrics[0]["error"] == "no JSON object in the reply"
    assert tree.rubrics[0]["items"] == []
    assert [(s["attempt"], s["valid"], s["final_score"]) for s in tree.scores] == [(0, False, None), (1, True, 0.9)]
    assert {s["rubric_id"] for s in tree.scores} == {tree.rubrics[1]["rubric_id"]}
    assert [t["ok"] for t in tree.turns if t["kind"] != "act"] == [False, True, False, True]
    assert len({r.sampling.seed for r in tree.policies["writer"].requests}) == 2


def test_without_a_valid_rubric_nothing_is_scored_and_the_child_runs():
    tree = play(script(TURNS), writer=Fake("writer", lambda r: "no"), rubric=RubricSettings(attempts=3))
    assert len(tree.rubrics) == 3
    assert not tree.scores
    assert tree.nodes[1]["outcome"] == "finished"


@pytest.mark.parametrize("fault", [PolicyError("gone"), Completion("x", None, None, "error", "none", 0)])
def test_a_failing_writer_or_scorer_never_ends_an_agent(fault):
    tree = play(script(TURNS), writer=Fake("writer", lambda r: fault), budgets=Budgets(retries=1))
    assert tree.root.outcome == "finished"
    turn = next(t for t in tree.turns if t["kind"] == "rubric")
    assert (turn["finish_reason"], turn["ok"], turn["trainable"], turn["text"]) == ("error", False, False, "")
    assert tree.rubrics[0]["valid"] is False
    tree = play(script(TURNS), scorer=Fake("scorer", lambda r: fault), budgets=Budgets(retries=0))
    assert (tree.scores[0]["valid"], tree.scores[0]["final_score"]) == (False, None)


def test_a_rubric_that_was_cut_off_is_invalid():
    cut = Completion(json.dumps(RUBRIC), None, None, "length", "none", 0)
    tree = play(script(TURNS), writer=Fake("writer", lambda r: cut))
    assert tree.rubrics[0]["error"] == "truncated reply"


def test_purposes_without_rubrics_need_no_writer():
    tree = play(script(TURNS), purpose="delegation")
    assert not tree.rubrics
    assert not tree.scores
    assert {t["kind"] for t in tree.turns} == {"act"}


def test_a_missing_scorer_is_named_before_anything_runs():
    act = Fake("player", script(TURNS))
    coroutine = run_tree(plan("rubric"), Services(world=Pot(), policies={"act": act}))
    with pytest.raises(UsageError, match="writer and scorer"):
        coroutine.send(None)
    assert not act.requests
