"""Execution credit through the SQL: golden vectors, error turns, who counts in a baseline."""

from __future__ import annotations

import pytest

from learn.credit import compute_credit
from learn.method import open_method
from tests.learn.forest import Forest

ROOTS = [1, 0, 0, 1, 0, 0, 0, 1]


def advantages(forest: Forest, method: str = "rubric_reward", **params: float | str) -> dict[str, float]:
    credit = compute_credit(forest.connect(), open_method(method).with_params(dict(params)))
    rows = credit.rows.filter(stage="execution")
    return dict(zip(rows["trajectory_id"], rows["advantage"], strict=True))


def golden_group(score: float = 0.6) -> tuple[Forest, dict[str, str]]:
    forest = Forest()
    roots = [forest.root("a", i, reward) for i, reward in enumerate(ROOTS)]
    names = {"won": roots[0], "lost": roots[1]}
    names["child_of_won"] = forest.child(roots[0], 0, score=score)
    names["child_of_lost"] = forest.child(roots[1], 0, score=score)
    return forest, names


def test_golden_leave_one_out_over_roots():
    forest, names = golden_group()
    got = advantages(forest)
    assert got[names["won"]] == pytest.approx(0.7142857, abs=1e-7)
    assert got[names["lost"]] == pytest.approx(-0.4285714, abs=1e-7)
    assert got[names["child_of_won"]] == pytest.approx(0.3142857, abs=1e-7)
    assert got[names["child_of_lost"]] == pytest.approx(0.1714286, abs=1e-7)
    assert len(got) == 10


def test_golden_single_root_reference_and_recommended():
    forest = Forest()
    root = forest.root("a", 0, 1)
    child = forest.child(root, 0, score=0.6)
    assert advantages(forest) == {root: 0.0, child: pytest.approx(-0.4)}
    assert advantages(forest, single="drop") == {}


def test_program_rewards_use_the_childs_own_label_and_lambda():
    forest, names = golden_group()
    below = forest.child(names["child_of_won"], 0, label=1)
    forest.child(names["child_of_won"], 0, launch_index=1, label=0)
    got = advantages(forest, "rao")
    assert got[names["child_of_won"]] == pytest.approx(1 - 2 / 7)
    assert got[names["lost"]] == pytest.approx(-3 / 7)
    more = advantages(forest, "rao", **{"lambda": 0.4})
    assert more[names["child_of_won"]] == pytest.approx(1 + 0.4 * 0.5 - 2 / 7)
    assert more[below] == got[below]
    assert more[names["won"]] == got[names["won"]], "a root is paid its verdict only"


def test_infra_error_roots_and_roots_without_verdict_do_not_count():
    forest, names = golden_group()
    before = advantages(forest)
    broken = forest.root("a", 8, None, outcome="infra_error")
    forest.child(broken, 0, score=0.5)
    forest.root("a", 9, None)
    assert advantages(forest) == before
    assert names["won"] in before


def test_an_infra_error_child_gets_no_row():
    forest, names = golden_group()
    forest.node(names["child_of_won"])["outcome"] = "infra_error"
    assert names["child_of_won"] not in advantages(forest)
    assert names["child_of_won"] not in advantages(forest, "rao")


@pytest.mark.parametrize("table, column, value", [
    ("rubrics", "valid", False), ("scores", "valid", False), ("scores", "attempt", 1), ("rubrics", "attempt", 1),
    ("scores", "phase", "refresh"), ("rubrics", "k", 1), ("scores", "shard_id", "e000003.a001.u0000"),
])  # fmt: skip
def test_a_node_without_a_first_valid_score_of_its_own_scorer_gets_no_row(table, column, value):
    forest, names = golden_group()
    forest.rows[table][0][column] = value
    got = advantages(forest)
    assert names["child_of_won"] not in got
    assert got[names["child_of_lost"]] == pytest.approx(0.1714286, abs=1e-7)


def test_a_later_scorer_does_not_change_the_credit():
    forest, _ = golden_group()
    before = advantages(forest)
    old = forest.rows["scores"][0]
    forest.rows["scores"].append({**old, "scorer_version": 7, "shard_id": "e000003.a001.u0000", "final_score": 0.1})
    assert advantages(forest) == before


def test_error_turns_of_successful_nodes_are_not_trained():
    forest, names = golden_group()
    for node in ("won", "lost", "child_of_won", "child_of_lost"):
        forest.turn(names[node], ok=False)
    forest.rows["scores"][1]["success"] = False  # the scorer's flag decides, not the score
    rows = compute_credit(forest.connect(), open_method("rubric_reward")).rows
    n_turns = {name: rows.filter(trajectory_id=node)["turn_id"].n_unique() for name, node in names.items()}
    assert n_turns == {"won": 1, "lost": 2, "child_of_won": 1, "child_of_lost": 2}


def test_error_turns_without_a_success_flag_follow_the_score():
    forest, names = golden_group(score=1.0)
    forest.turn(names["child_of_won"], ok=False)
    forest.rows["scores"][0]["success"] = None
    rows = compute_credit(forest.connect(), open_method("rubric_reward")).rows
    assert rows.filter(trajectory_id=names["child_of_won"])["turn_id"].to_list() == [f"{names['child_of_won']}#0000"]


def test_spans_are_whole_completions_of_act_turns():
    forest, _ = golden_group()
    rows = compute_credit(forest.connect(), open_method("rubric_reward")).rows
    assert set(rows["token_start"]) == {0}
    assert set(rows["token_end"]) == {3}
    kinds = {t["turn_id"]: t["kind"] for t in forest.rows["turns"]}
    assert {kinds[t] for t in rows["turn_id"]} == {"act"}


@pytest.mark.parametrize("purpose", ["delegation", "rubric", "eval", "warm"])
def test_groups_of_another_purpose_give_no_execution_credit(purpose):
    forest, _ = golden_group()
    for node in forest.rows["nodes"]:
        node["purpose"] = purpose
    assert advantages(forest) == {}
    assert advantages(forest, "rao") == {}


def test_groups_of_two_epochs_have_their_own_baselines():
    forest, names = golden_group()
    before = advantages(forest)
    forest.epoch = 4
    again = [forest.root("a", i, reward) for i, reward in enumerate([1, 1, 0])]
    after = advantages(forest)
    assert {k: v for k, v in after.items() if k in before} == before
    assert after[again[2]] == pytest.approx(-1.0)
    assert names["won"] in after
