"""The score program obeys the words of the rubric; rubrics are drawn by the weights given."""

import random
from collections import Counter

import pytest

from collect.scripted_judges import CRITERIA, GATES, Evidence, gate_text, write_rubric, write_score
from collect.world import Action, Event
from schemas.rubric import rubric_from_json
from schemas.score import score_from_json, weighted_score

TARGETS = {"m2_i3": 2}
LOOK = (Action("get_info", {"items": ["m2_i3"]}), Event(True, "[]"), "")
MAKE = (Action("craft", {"target": ["m2_i3", 2], "ingredients": {"m1_ore": 1}}), Event(True, "Crafted"), "")
FAIL = (Action("craft", {"target": ["m2_i3", 3], "ingredients": {"m1_ore": 1}}), Event(False, "Error: no"), "")
NOISE = (None, Event(False, "Error: no JSON object in the reply"), "")
END = (Action("finish", {"message": "done"}), None, "")


def rubric(gate, names=tuple(CRITERIA), failure="finish was not called"):
    items = [{"name": name, "description": "d", "weight": 1} for name in names]
    body = {"rubric_items": items, "success_gate": gate, "failure_conditions": failure, "scoring_procedure": ""}
    return rubric_from_json(body)


def evidence(*turns, gained=2, finished=True, **others):
    return Evidence(TARGETS, {"m2_i3": gained, "m1_ore": -1, **others}, turns, finished)


@pytest.mark.parametrize(
    "gate, seen, success",
    [
        ("gains 2 m2_i3", evidence(LOOK, MAKE, END), True),
        ("gains 2 m2_i3", evidence(LOOK, END, gained=1), False),
        ("gains 1 m2_i3", evidence(LOOK, END, gained=1), True),  # under-counted: a failure passes
        ("gains 2 m2_i3 and 1 o1_i1", evidence(LOOK, MAKE, END), False),
        ("gains 2 m2_i3 and 1 o1_i1", evidence(LOOK, MAKE, END, o1_i1=1), True),
        ("gains 2 m2_i3", evidence(LOOK, MAKE, finished=False), False),
        ("finish was called", evidence(END, gained=0), True),
        ("finish was called", evidence(MAKE, finished=False), False),
        ("no action failed", evidence(LOOK, FAIL, MAKE, END), False),
        ("no action failed", evidence(NOISE, MAKE, END), False),
        ("no action failed", evidence(END, gained=0), True),
        ("some action worked", evidence(LOOK, END, gained=0), True),  # effort is enough
        ("some action worked", evidence(FAIL, END), False),
        ("is elegant", evidence(END, gained=0), True),
    ],
)
def test_the_gate_is_obeyed_whatever_the_truth(gate, seen, success):
    found = rubric(gate)
    body = write_score(found, seen)
    score = score_from_json(body, found)
    assert score.success is success
    assert (score.final_score > 0) is success
    if success:
        assert score.final_score == pytest.approx(weighted_score(found, score), abs=0.006)


@pytest.mark.parametrize(
    "name, seen, value",
    [
        ("target_gain", evidence(END), 1),
        ("target_gain", evidence(END, gained=1), 0.5),
        ("target_gain", evidence(END, gained=-1), 0),
        ("right_recipe", evidence(MAKE), 1),
        ("right_recipe", evidence(FAIL, MAKE), 0.5),
        ("right_recipe", evidence(LOOK), 0),
        ("looked_up", evidence(LOOK, MAKE), 1),
        ("looked_up", evidence(MAKE, LOOK, MAKE), 0.5),
        ("looked_up", evidence(MAKE), 0),
        ("no_errors", evidence(MAKE), 1),
        ("no_errors", evidence(FAIL, MAKE), 0.5),
        ("no_errors", evidence(FAIL, NOISE), 0),
        ("few_steps", evidence(MAKE, END), 1),
        ("few_steps", evidence(LOOK, MAKE, END), 0.5),
        ("few_steps", evidence(*[LOOK] * 6), 0),
        ("finished", evidence(END), 1),
        ("finished", evidence(finished=False), 0),
        ("no_waste", evidence(MAKE), 1),
        ("no_waste", evidence(MAKE, m1_i1=3), 0.5),
        ("elegance", evidence(MAKE), 0.5),
    ],
)
def test_criteria(name, seen, value):
    body = write_score(rubric("finish was called", (name, "finished"), failure=""), seen)
    assert body["criterion_scores"][0] == value


def test_a_passed_gate_never_scores_zero():
    body = write_score(rubric("is elegant", ("target_gain", "right_recipe"), failure=""), evidence(gained=0))
    assert (body["success"], body["final_score"]) == (True, 0.01)


def test_gates_are_drawn_by_weight_and_right_ones_have_substance():
    rng = random.Random(0)
    gates = {"right": 0.3, "under": 0.2, "finish": 0.2, "no_error": 0.2, "effort": 0.1}
    shares = {"finish": 0.5, "under": 1.0}  # a gate that is not named has none
    drawn = [rubric_from_json(write_rubric(TARGETS, rng, gates=gates, substance=shares)) for _ in range(2000)]
    texts = Counter(found.success_gate for found in drawn)
    for kind in GATES:
        assert texts[gate_text(kind, TARGETS)] / 2000 == pytest.approx(gates[kind], abs=0.04)
    assert gate_text("under", {"a": 3, "b": 1}) == "gains 2 a and 0 b"
    for found in drawn:
        names = [item.name for item in found.items]
        assert names == [name for name in CRITERIA if name in names]
        assert found.success_gate != "gains 2 m2_i3" or "target_gain" in names
    for kind, share in {**shares, "no_error": 0.0}.items():
        of_kind = [found for found in drawn if found.success_gate == gate_text(kind, TARGETS)]
        with_gain = sum(any(item.name == "target_gain" for item in found.items) for found in of_kind)
        assert with_gain / len(of_kind) == pytest.approx(share, abs=0.07)
