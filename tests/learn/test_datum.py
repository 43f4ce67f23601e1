"""Datums from credit rows: the token rule, spans, alignment, keyframes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from learn.credit import SCHEMA, compute_credit
from learn.datum import Datum
from learn.method import open_method
from learn.sequence import build_datums
from sera_data.errors import StoreError
from tests.learn.forest import Forest, launch


def row(turn: dict, start: int, end: int, advantage: float, **more) -> dict:
    base = {"trajectory_id": turn["node_id"], "stage": "execution", "depth": 0, "group_id": "3/a", "reward": 0.0}
    span = {"turn_id": turn["turn_id"], "token_start": start, "token_end": end, "advantage": advantage}
    return {**base, **span, "baseline": 0.0, **more}


def full_text(*turns: dict) -> list[int]:
    return [token for t in turns for token in (*t["prompt_ids"], *t["completion_ids"])]


def datums(forest: Forest, *rows: dict, chunk: int = 256) -> list[Datum]:
    frame = pl.DataFrame(list(rows)).select(SCHEMA.names)
    return list(build_datums(forest.connect(), frame, chunk=chunk))


def test_turns_of_a_node_merge_into_one_sequence_that_reproduces_the_prompts():
    forest = Forest()
    root = forest.root("a", 0, 1, n_turns=3)
    first, second, third = forest.acts(root)
    (datum,) = datums(forest, row(first, 0, 3, 0.5), row(second, 0, 3, 0.5), row(third, 0, 3, 0.5))
    assert datum.token_ids.tolist() == full_text(first, second, third)
    assert datum.trained.tolist() == [False, False, True, True, True] * 3
    assert datum.logprobs.tolist() == pytest.approx([0, 0, -0.1, -0.2, -0.3] * 3)
    assert datum.advantages.tolist() == [0, 0, 0.5, 0.5, 0.5] * 3
    assert datum.versions.tolist() == [-1, -1, 0, 0, 0] * 3
    assert (datum.datum_id, datum.n_trained, datum.policy_version) == (f"{root}@execution.0", 9, 0)


def test_only_credited_spans_are_trained_and_the_sequence_ends_with_the_last():
    forest = Forest(version=4)
    root = forest.root("a", 0, 1, n_turns=4)
    acts = forest.acts(root)
    (datum,) = datums(forest, row(acts[0], 0, 1, 1.0), row(acts[2], 1, 2, -1.0), row(acts[0], 2, 3, 0.25))
    assert len(datum) == 14
    assert datum.trained.nonzero()[0].tolist() == [2, 4, 13]
    assert datum.token_ids[[2, 4, 13]].tolist() == [3, 5, 24]
    assert datum.logprobs[[2, 4, 13]].tolist() == pytest.approx([-0.1, -0.3, -0.2])
    assert datum.advantages[[2, 4, 13]].tolist() == [1.0, 0.25, -1.0]
    assert datum.versions[[2, 4, 13]].tolist() == [4, 4, 4]


def test_a_keyframe_starts_a_new_datum():
    forest = Forest()
    root = forest.root("a", 0, 1, n_turns=2)
    third = forest.turn(root, base=None)
    first, second, _ = forest.acts(root)
    one, two = datums(forest, row(first, 0, 3, 0.5), row(third, 0, 3, 0.5))
    assert one.token_ids.tolist() == [*first["prompt_ids"], *first["completion_ids"]]
    assert two.token_ids.tolist() == [*third["prompt_ids"], *third["completion_ids"]]
    assert [d.datum_id for d in (one, two)] == [f"{root}@execution.0", f"{root}@execution.1"]
    assert second["turn_id"] not in one.datum_id


def test_a_turn_that_extends_the_middle_shares_the_prefix_untrained():
    forest = Forest()
    root = forest.root("a", 0, 1, n_turns=2)
    first, second = forest.acts(root)
    third = forest.turn(root, base=first["turn_id"])
    one, two = datums(forest, *(row(t, 0, 3, 0.5) for t in (first, second, third)))
    assert one.n_trained == 6
    assert two.token_ids.tolist()[:5] == one.token_ids.tolist()[:5]
    assert two.trained.nonzero()[0].tolist() == [7, 8, 9]


def test_a_delegation_counts_its_turns_as_parts():
    forest = Forest()
    root = forest.root("a", 0, 1, purpose="delegation", n_turns=3)
    acts = forest.acts(root)
    spans = [(acts[0], 0, 1), (acts[0], 2, 3), (acts[1], 0, 2)]
    (datum,) = datums(forest, *(row(t, a, b, 1.0, stage="delegation") for t, a, b in spans))
    assert datum.n_parts == 2
    assert len(datum) == 9
    assert datum.trained.nonzero()[0].tolist() == [2, 4, 7, 8]


def test_rubric_turns_are_keyframes_of_the_rubric():
    forest = Forest()
    root = forest.root("a", 0, 1, purpose="rubric", n_turns=2)
    other = forest.root("a", 1, 1, purpose="rubric", n_turns=2)
    for node, scores in ((root, [0.9, 0.1]), (other, [0.1, 0.9])):
        for branch, score in enumerate(scores):
            forest.child(node, 1, branch=branch, k=2, label=1 - branch, score=score)
    connection = forest.connect()
    credit = compute_credit(connection, open_method("sera"))
    built = list(build_datums(connection, credit.training_rows("rubric", credit.groups("rubric"))))
    turns = {t["node_id"]: t for t in forest.rows["turns"] if t["kind"] == "rubric"}
    assert [d.trajectory_id for d in built] == [f"{root}/t1d0~policy~0~0", f"{other}/t1d0~policy~0~0"]
    for datum, node in zip(built, (root, other), strict=True):
        assert datum.token_ids.tolist() == [*turns[node]["prompt_ids"], *turns[node]["completion_ids"]]
        assert (datum.depth, datum.n_trained) == (1, 3)


@pytest.mark.parametrize("chunk", [1, 2, 256])
def test_chunks_do_not_change_the_datums(chunk):
    forest = Forest()
    for sample, reward in enumerate([1, 0, 0, 1]):
        root = forest.root("a", sample, reward, n_turns=2)
        forest.child(root, 0, score=0.6, n_turns=3)
    connection = forest.connect()
    credit = compute_credit(connection, open_method("sera"))
    rows = credit.training_rows("execution", ["3/a"])
    built = list(build_datums(connection, rows, chunk=chunk))
    assert len(built) == 8
    assert sum(d.n_trained for d in built) == (rows["token_end"] - rows["token_start"]).sum()
    assert [d.datum_id for d in built] == [d.datum_id for d in build_datums(connection, rows)]
    for datum in built:
        turns = forest.acts(datum.trajectory_id)
        assert datum.token_ids.tolist() == full_text(*turns)
        values = credit.rows.filter(trajectory_id=datum.trajectory_id)["advantage"]
        assert set(datum.advantages[datum.trained]) == {np.float32(values[0])}


@pytest.mark.parametrize("change, fault", [
    ({"logprobs": [-0.1]}, "1 log-probabilities for 3 tokens"),
    ({"logprobs": None}, "0 log-probabilities for 3 tokens"),
    ({"completion_ids": [1]}, "span [0, 3) is not inside"),
    ({"base_turn": "ra3x0#0009"}, "which is not an earlier act turn"),
    ({"prompt_ids": []}, "an untrained first"),
])  # fmt: skip
def test_turns_that_cannot_be_trained_are_named(change, fault):
    forest = Forest()
    root = forest.root("a", 0, 1)
    turn = forest.acts(root)[0]
    turn.update(change)
    with pytest.raises(StoreError) as caught:
        datums(forest, row(turn, 0, 3, 1.0))
    assert fault in str(caught.value)
    assert root in str(caught.value)


def test_two_versions_in_one_sequence_are_refused():
    forest = Forest()
    root = forest.root("a", 0, 1)
    forest.version = 1
    forest.turn(root)
    with pytest.raises(StoreError, match=r"mixes policy versions \[0, 1\]"):
        datums(forest, *(row(t, 0, 3, 1.0) for t in forest.acts(root)))


def test_a_turn_that_is_not_stored_is_named():
    forest = Forest()
    turn = {**forest.acts(forest.root("a", 0, 1))[0], "turn_id": "gone#0000"}
    with pytest.raises(StoreError, match="credited turn gone#0000 is not in the store"):
        datums(forest, row(turn, 0, 3, 1.0))


def test_a_datum_refuses_arrays_that_do_not_fit():
    good = {
        "datum_id": "d", "stage": "execution", "trajectory_id": "n", "group_id": "0/t", "depth": 0,
        "token_ids": np.array([1, 2], np.int32), "trained": np.array([False, True]),
        "logprobs": np.array([0, -1], np.float32), "advantages": np.array([0, 1], np.float32),
        "versions": np.array([-1, 0], np.int32), "policy_version": 0,
    }  # fmt: skip
    assert len(Datum(**good)) == 2
    for name, value, fault in [
        ("trained", np.array([True, True]), "untrained first"),
        ("logprobs", np.array([0, np.inf], np.float32), "finite"),
        ("advantages", np.array([1, 1], np.float32), "advantage 0"),
        ("versions", np.array([-1, 0], np.int64), "versions must be int32[2]"),
        ("token_ids", np.array([1], np.int32), "bool[1]"),
    ]:
        with pytest.raises(StoreError) as caught:
            Datum(**{**good, name: value})
        assert fault in str(caught.value)


def test_a_refused_launch_is_trained_on_its_own_span():
    forest = Forest()
    first = forest.root("a", 0, 1, purpose="delegation", n_turns=0)
    forest.turn(first)
    forest.turn(first, delegations=[launch(None, "refused", (1, 3))], ok=False)
    second = forest.root("a", 1, 1, purpose="delegation")
    forest.child(second, 0)
    connection = forest.connect()
    credit = compute_credit(connection, open_method("sera"))
    built = {d.trajectory_id: d for d in build_datums(connection, credit.training_rows("delegation", ["3/a"]))}
    assert built[first].trained.nonzero()[0].tolist() == [8, 9]
    assert built[first].advantages[8] == -1.0
