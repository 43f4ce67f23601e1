"""Rubric credit through the SQL: hinge over branches, leave-one-out over the delegations of a task."""

from __future__ import annotations

import pytest

from learn.credit import compute_credit
from learn.method import open_method
from tests.learn.forest import Forest

A = ([0.92, 0.21, 0.81, 0.36, 0.74, 0.12, 0.42, 0.88], [1, 0, 1, 0, 1, 0, 0, 1])
B = ([0.5, 0.6, 0.4, 0.5, 0.45, 0.55, 0.5, 0.3], [1, 0, 1, 0, 1, 0, 0, 0])


def fork(forest: Forest, root: str, step: int, scores: list[float], labels: list[int], complete: bool = True) -> str:
    for branch, (score, label) in enumerate(zip(scores, labels, strict=True)):
        forest.child(root, step, branch=branch, k=len(scores), label=label, score=score, complete=complete)
    return f"{root}/t{step}d0~policy~0~0"


def rubric_rows(forest: Forest) -> dict[str, tuple[float, float]]:
    rows = compute_credit(forest.connect(), open_method("sera")).rows.filter(stage="rubric")
    return {r["trajectory_id"]: (r["reward"], r["advantage"]) for r in rows.iter_rows(named=True)}


def test_golden_hinge_and_leave_one_out():
    forest = Forest()
    first = forest.root("a", 0, 1, purpose="rubric")
    second = forest.root("a", 1, 0, purpose="rubric")
    good, bad = fork(forest, first, 0, *A), fork(forest, second, 0, *B)
    got = rubric_rows(forest)
    assert got[good] == (0.0, pytest.approx(0.24))
    assert got[bad] == (pytest.approx(-0.24), pytest.approx(-0.24))


def test_the_rows_are_the_rubric_tokens_at_the_childs_depth():
    forest = Forest()
    root = forest.root("a", 0, 1, purpose="rubric")
    rubric = fork(forest, root, 0, *B)
    row = compute_credit(forest.connect(), open_method("sera")).rows.row(0, named=True)
    turn = next(t for t in forest.rows["turns"] if t["kind"] == "rubric")
    assert (row["turn_id"], row["trajectory_id"], row["depth"]) == (turn["turn_id"], rubric, 1)
    assert (row["token_start"], row["token_end"]) == (0, 3)


def test_golden_single_delegation_has_advantage_zero_and_is_dropped():
    forest = Forest()
    rubric = fork(forest, forest.root("a", 0, 1, purpose="rubric"), 0, *B)
    credit = compute_credit(forest.connect(), open_method("sera"))
    assert rubric_rows(forest) == {rubric: (pytest.approx(-0.24), 0.0)}
    assert credit.groups("rubric") == []
    assert credit.dropped[0].reason.startswith("homogeneous")


@pytest.mark.parametrize("label", [0, 1])
def test_golden_all_success_or_all_failure_gives_nothing(label):
    forest = Forest()
    fork(forest, forest.root("a", 0, 1, purpose="rubric"), 0, B[0], [label] * 8)
    credit = compute_credit(forest.connect(), open_method("sera"))
    assert credit.rows.is_empty()
    assert "both a success and a failure" in credit.dropped[0].reason


def test_a_gap_of_the_margin_costs_nothing_in_floating_point():
    forest = Forest()
    rubric = fork(forest, forest.root("a", 0, 1, purpose="rubric"), 0, [0.7, 0.5], [1, 0])
    assert 0.7 - 0.5 < 0.2
    assert rubric_rows(forest)[rubric][0] == 0.0


def test_branches_without_a_valid_score_or_label_are_left_out():
    forest = Forest()
    rubric = fork(forest, forest.root("a", 0, 1, purpose="rubric"), 0, [0.5, 0.5, 0.1], [1, 0, 0])
    assert rubric_rows(forest)[rubric][0] == pytest.approx(-0.1)
    forest.rows["scores"][1].update(valid=False, final_score=None)
    assert rubric_rows(forest)[rubric][0] == 0.0
    forest.rows["labels"][3].update(valid=False, value=None)
    assert rubric_rows(forest) == {}


def test_incomplete_groups_other_purposes_and_infra_roots_are_left_out():
    forest = Forest()
    kept = fork(forest, forest.root("a", 0, 1, purpose="rubric"), 0, *A)
    fork(forest, forest.root("a", 1, 1, purpose="rubric"), 0, *B, complete=False)
    fork(forest, forest.root("a", 2, None, purpose="rubric", outcome="infra_error"), 0, *B)
    fork(forest, forest.root("b", 0, 1, purpose="execution"), 0, *B)
    assert list(rubric_rows(forest)) == [kept]


def test_delegations_inside_a_branch_are_ranked_too():
    forest = Forest()
    root = forest.root("a", 0, 1, purpose="rubric")
    outer = fork(forest, root, 0, *A)
    inner = fork(forest, f"{root}/t0d0b3", 0, *B)
    got = rubric_rows(forest)
    assert got[outer][1] == pytest.approx(0.24)
    assert got[inner][1] == pytest.approx(-0.24)


def test_attempts_after_the_first_are_never_trained():
    forest = Forest()
    root = forest.root("a", 0, 1, purpose="rubric")
    fork(forest, root, 0, *B)
    for row in forest.rows["rubrics"]:
        row["attempt"] = 1
    assert rubric_rows(forest) == {}
