"""Properties of credit over random forests: what a score, an off-path branch or a shuffle may change."""

from __future__ import annotations

import copy

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from learn.credit import compute_credit, hash_rows
from learn.depth_weights import batch_weights
from learn.method import open_method
from learn.sequence import build_datums
from schemas.words import STAGES
from tests.learn.forest import Forest

SCORES = st.sampled_from([0.0, 0.1, 0.3, 0.45, 0.5, 0.7, 0.9, 1.0])
QUICK = settings(deadline=None, max_examples=4)


@st.composite
def forests(draw) -> Forest:
    """Groups of all purposes; children with k branches, grandchildren below any branch."""
    forest = Forest()
    for task, purpose in (("a", "execution"), ("b", "delegation"), ("c", "rubric")):
        for sample in range(draw(st.integers(2, 3))):
            root = forest.root(task, sample, draw(st.integers(0, 1)), purpose=purpose, n_turns=2)
            for step in range(draw(st.integers(0, 2))):
                k = draw(st.sampled_from([1, 3]))
                for branch in range(k):
                    child = forest.child(
                        root, step, branch=branch, k=k, label=draw(st.integers(0, 1)), score=draw(SCORES)
                    )
                    if draw(st.booleans()):
                        forest.child(child, 0, label=draw(st.integers(0, 1)), score=draw(SCORES))
    return forest


def credit_rows(forest: Forest, method: str = "sera") -> pl.DataFrame:
    return compute_credit(forest.connect(), open_method(method)).rows


@QUICK
@given(forests(), st.data())
def test_one_stored_score_changes_exactly_the_advantages_of_its_node(forest, data):
    scored = [
        s for s in forest.rows["scores"] if s["task_id"] == "a" and forest.node(s["node_id"])["on_path"]
    ]  # fmt: skip
    if not scored:
        return
    chosen = data.draw(st.sampled_from(scored))
    before = credit_rows(forest)
    chosen["final_score"] = chosen["final_score"] * 0.5 + 0.25 if chosen["final_score"] != 0.5 else 0.6
    after = credit_rows(forest)
    changed = before.join(after, on=before.columns, how="anti")
    turns = {t["turn_id"] for t in forest.acts(chosen["node_id"])}
    assert set(changed["turn_id"]) == turns
    assert before.drop("advantage", "reward").equals(after.drop("advantage", "reward"))
    assert hash_rows(before) != hash_rows(after)


@QUICK
@given(forests())
def test_deleting_every_off_path_row_changes_no_factual_credit(forest):
    pruned = copy.deepcopy(forest)
    off = {n["node_id"] for n in forest.rows["nodes"] if not n["on_path"]}
    for rows in pruned.rows.values():
        rows[:] = [row for row in rows if row.get("node_id") not in off]
    connections = [forest.connect(), pruned.connect()]
    for method in ("sera", "rao"):
        full, less = (compute_credit(c, open_method(method)).rows for c in connections)
        full, less = (rows.filter(pl.col("stage") != "rubric") for rows in (full, less))
        assert full.equals(less)
        assert not set(full["trajectory_id"]) & off
        weights = [
            [batch_weights(list(build_datums(c, full.filter(stage=s)))) for s in ("execution", "delegation")]
            for c in connections
        ]
        assert weights[0] == weights[1]
    left, right = (c.sql("from leaves order by all").fetchall() for c in connections)
    assert left == right


@QUICK
@given(forests())
def test_shuffled_credit_keeps_everything_but_who_gets_what(forest):
    connection = forest.connect()
    real, mixed = (compute_credit(connection, open_method(m)) for m in ("sera", "sera_shuffled"))
    kept = ["turn_id", "trajectory_id", "stage", "token_start", "token_end", "depth", "group_id", "trainable"]
    assert real.rows.select(kept).equals(mixed.rows.select(kept))
    deal = ["stage", "group_id", "reward", "baseline", "advantage"]
    one, two = (c.rows.select(deal).unique().sort(deal) for c in (real, mixed))
    assert one.equals(two)
    assert [real.groups(s) for s in STAGES] == [mixed.groups(s) for s in STAGES]
    assert compute_credit(connection, open_method("sera_shuffled")).sha256 == mixed.sha256


def test_shuffling_really_moves_advantages():
    forest = Forest()
    for sample in range(8):
        forest.root("a", sample, sample % 2)
    real, mixed = credit_rows(forest), credit_rows(forest, "sera_shuffled")
    moved = (real["advantage"] != mixed["advantage"]).sum()
    assert 0 < moved <= 8
    assert sorted(real["advantage"]) == sorted(mixed["advantage"])


@QUICK
@given(forests())
def test_credit_does_not_depend_on_the_order_of_rows(forest):
    turned = copy.deepcopy(forest)
    for rows in turned.rows.values():
        rows.reverse()
    one, two = (compute_credit(f.connect(), open_method("sera")) for f in (forest, turned))
    assert one.sha256 == two.sha256
    assert one.rows.equals(two.rows)


@QUICK
@given(forests())
def test_the_reward_minus_the_baseline_is_the_advantage(forest):
    rows = credit_rows(forest)
    assert ((rows["reward"] - rows["baseline"] - rows["advantage"]).abs() < 1e-12).all()
    roots = rows.filter(depth=0, stage="execution").unique("trajectory_id")
    assert abs(roots["advantage"].sum()) < 1e-9, "leave-one-out sums to 0 over the roots of a group"
