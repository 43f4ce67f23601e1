"""Delegation credit through the SQL: leaf coverage, invalid attempts, root-balanced baseline."""

from __future__ import annotations

import pytest

from learn.credit import compute_credit
from learn.method import open_method
from tests.learn.forest import Forest, launch


def delegation_rows(forest: Forest):
    return compute_credit(forest.connect(), open_method("sera")).rows.filter(stage="delegation")


def by_turn(forest: Forest, column: str) -> dict[str, float]:
    rows = delegation_rows(forest)
    return dict(zip(rows["turn_id"], rows[column], strict=True))


def golden_tree(forest: Forest, reward: float = 1) -> str:
    """R -t2-> A, B; R -t5-> C; A -t1-> D, E; C -t0-> F."""
    root = forest.root("a", 0, reward, purpose="delegation", n_turns=6)
    a = forest.child(root, 2, n_turns=2)
    forest.child(root, 2, launch_index=1)
    c = forest.child(root, 5)
    forest.child(a, 1)
    forest.child(a, 1, launch_index=1)
    forest.child(c, 0)
    return root


def test_golden_leaf_weights():
    forest = Forest()
    root = golden_tree(forest)
    forest.root("a", 1, 0, purpose="delegation")
    assert by_turn(forest, "reward") == {
        f"{root}#0002": 0.75,
        f"{root}#0005": 0.25,
        f"{root}/t2d0b0#0001": 0.5,
        f"{root}/t5d0b0#0000": 0.25,
    }
    assert set(by_turn(forest, "baseline").values()) == {0.0}


def test_off_path_branches_are_not_leaves():
    forest = Forest()
    root = golden_tree(forest)
    forest.root("a", 1, 0, purpose="delegation")
    before = by_turn(forest, "reward")
    for branch in range(1, 8):
        fork = forest.child(root, 2, branch=branch, k=8)
        forest.child(fork, 0)
    assert by_turn(forest, "reward") == before


def test_golden_root_balanced_leave_one_out():
    """[[.75, .25], [], [0], [1]] -> m = [.5, 0, 0, 1]."""
    forest = Forest()
    first = forest.root("a", 0, 1, purpose="delegation", n_turns=2)
    middle = forest.child(first, 0)
    del middle
    for index in range(1, 3):
        forest.child(first, 0, launch_index=index)
    forest.child(first, 1)
    forest.root("a", 1, 1, purpose="delegation")
    third = forest.root("a", 2, 0, purpose="delegation")
    forest.child(third, 0)
    fourth = forest.root("a", 3, 1, purpose="delegation")
    forest.child(fourth, 0)
    got = by_turn(forest, "advantage")
    assert got == {
        f"{first}#0000": pytest.approx(0.4166667, abs=1e-7),
        f"{first}#0001": pytest.approx(-0.0833333, abs=1e-7),
        f"{third}#0000": pytest.approx(-0.5),
        f"{fourth}#0000": pytest.approx(0.8333333, abs=1e-7),
    }


def test_spans_are_the_launches_of_the_turn():
    forest = Forest()
    golden_tree(forest)
    forest.root("a", 1, 0, purpose="delegation")
    rows = delegation_rows(forest)
    assert rows.select("token_start", "token_end").rows() == [(0, 1), (1, 2), (0, 1), (0, 1), (1, 2), (0, 1)]
    assert rows.group_by("turn_id").agg().height == 4
    assert rows["depth"].to_list() == [0, 0, 0, 1, 1, 1]


def test_an_attempt_without_a_child_is_an_event_of_reward_zero():
    forest = Forest()
    first = forest.root("a", 0, 1, purpose="delegation")
    forest.child(first, 0)
    second = forest.root("a", 1, 1, purpose="delegation", n_turns=0)
    forest.turn(second, delegations=[launch(None, "refused", (0, 3))], ok=False)
    forest.root("a", 2, 1, purpose="delegation")
    rows = delegation_rows(forest)
    got = {r["turn_id"]: (r["reward"], r["advantage"]) for r in rows.iter_rows(named=True)}
    assert got == {f"{first}#0000": (1.0, 1.0), f"{second}#0000": (0.0, -0.5)}


def test_refused_launches_beside_a_launched_one_are_not_trained():
    forest = Forest()
    first = forest.root("a", 0, 1, purpose="delegation", n_turns=0)
    turn = forest.turn(first, delegations=[launch(None, "refused", (0, 1)), launch(f"{first}/t0d0", span=(1, 3))])
    forest.child(first, 0)
    forest.root("a", 1, 1, purpose="delegation")
    rows = delegation_rows(forest)
    assert rows.select("turn_id", "token_start", "token_end", "reward").rows() == [(turn["turn_id"], 1, 3, 1.0)]


def test_an_event_without_a_span_is_dropped_before_the_mean():
    forest = Forest()
    first = forest.root("a", 0, 1, purpose="delegation", n_turns=0)
    forest.turn(first, delegations=[launch(f"{first}/t0d0", span=None)])
    forest.turn(first, delegations=[launch(f"{first}/t1d0", span=(0, 2))])
    forest.child(first, 0)
    forest.child(first, 1)
    second = forest.root("a", 1, 1, purpose="delegation")
    forest.child(second, 0)
    assert by_turn(forest, "advantage") == {f"{first}#0001": -0.5, f"{second}#0000": 0.5}


def test_a_launch_whose_child_never_ran_is_no_event():
    forest = Forest()
    first = forest.root("a", 0, 1, purpose="delegation", n_turns=0)
    forest.turn(first, delegations=[launch(f"{first}/t0d0")])
    forest.root("a", 1, 1, purpose="delegation")
    assert by_turn(forest, "advantage") == {}


def test_infra_error_roots_do_not_count_and_two_roots_are_needed():
    forest = Forest()
    first = forest.root("a", 0, 1, purpose="delegation")
    forest.child(first, 0)
    broken = forest.root("a", 1, None, purpose="delegation", outcome="infra_error")
    forest.child(broken, 0)
    credit = compute_credit(forest.connect(), open_method("sera"))
    assert credit.rows.is_empty()
    assert [(d.stage, d.group_id) for d in credit.dropped] == [("delegation", "3/a")]
    assert "fewer than two roots" in credit.dropped[0].reason


def test_policies_without_ids_show_their_credit_but_cannot_train():
    forest = Forest()
    for sample, reward in enumerate([1, 0]):
        root = forest.root("a", sample, reward, purpose="delegation", with_ids=False)
        forest.acts(root)[0]["delegations"] = [launch(f"{root}/t0d0", span=None)]
        forest.child(root, 0)
    credit = compute_credit(forest.connect(), open_method("sera"))
    assert credit.rows.select("token_start", "token_end", "advantage").rows() == [(0, 0, 1.0), (0, 0, -1.0)]
    assert credit.groups("delegation") == []
    assert credit.dropped[0].reason.startswith("not trainable")


@pytest.mark.parametrize("spans, joined", [
    ([(0, 2), (1, 3)], [(0, 3)]), ([(0, 2), (0, 2)], [(0, 2)]), ([(0, 3), (1, 2)], [(0, 3)]),
    ([(0, 1), (2, 3)], [(0, 1), (2, 3)]), ([(0, 1), (1, 2), (1, 3)], [(0, 1), (1, 3)]),
])  # fmt: skip
def test_launches_that_share_a_token_become_one_span(spans, joined):
    forest = Forest()
    first = forest.root("a", 0, 1, purpose="delegation", n_turns=0)
    forest.turn(first, delegations=[launch(f"{first}/t0d{i}", span=span) for i, span in enumerate(spans)])
    for index in range(len(spans)):
        forest.child(first, 0, launch_index=index)
    forest.root("a", 1, 1, purpose="delegation")
    rows = delegation_rows(forest)
    assert rows.select("token_start", "token_end").rows() == joined
    assert set(rows["advantage"]) == {1.0}
