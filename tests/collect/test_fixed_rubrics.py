"""Rubrics that nobody writes: one for all delegations, or scores without any."""

from __future__ import annotations

import pytest

from collect.fixed_rubrics import fixed_rubric
from collect.settings import RubricSettings
from tests.collect.tree_lab import call, done, play, script

TURNS = {
    "": [call("delegate", targets={"a": 1}), done()],
    "/t0d0b0": [call("add", item="a", n=1), done("made")],
}


@pytest.mark.parametrize("style", ["terse", "full"])
def test_one_rubric_for_every_delegation_is_stored_and_scored_by(style):
    tree = play(script(TURNS), style=style, rubric=RubricSettings(source="global"))
    (row,) = tree.rubrics
    delegating = next(t for t in tree.turns if t["delegations"])
    assert (row["writer"], row["turn_id"], row["valid"]) == ("global", delegating["turn_id"], True)
    assert row["rubric_sha256"] == fixed_rubric("global").sha256()
    assert row["order_stamp"] < min(n["order_start"] for n in tree.nodes if n["depth"] == 1)
    assert not tree.policies["writer"].requests
    (request,) = tree.policies["scorer"].requests
    assert fixed_rubric("global").canonical() in request.messages[1].content
    assert [s["rubric_id"] for s in tree.scores] == [row["rubric_id"]]
    assert [t["kind"] for t in tree.turns if t["kind"] != "act"] == ["score"]


@pytest.mark.parametrize("style", ["terse", "full"])
def test_a_direct_score_sees_no_rubric(style):
    written = play(script(TURNS), style=style)
    tree = play(script(TURNS), style=style, rubric=RubricSettings(source="direct"))
    assert tree.rubrics[0]["writer"] == "direct"
    (request,), (with_rubric,) = tree.policies["scorer"].requests, written.policies["scorer"].requests
    assert "ubric" not in request.messages[1].content
    assert with_rubric.messages[1].content.endswith(request.messages[1].content)
    assert request.messages[0] != with_rubric.messages[0]
    assert tree.scores[0]["final_score"] == 0.9


def test_weights_sum_to_one():
    for source in ("global", "direct"):
        assert sum(item.weight for item in fixed_rubric(source).items) == pytest.approx(1)
