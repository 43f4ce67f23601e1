"""Turns without token ids are refused by name: who spoke them, which, what to do; other stages train on."""

import pytest

import sera_data as sd
from learn.config import LearnConfig
from learn.credit import compute_credit
from learn.feed import Feed
from learn.method import open_method
from learn.untrainable import require_trainable, untrainable
from learn.where import Where
from sera_data.errors import StoreError
from tests.collect.job_lab import play, small_config
from tests.learn.forest import Forest

A = ([0.92, 0.21, 0.81, 0.36], [1, 0, 1, 0])
B = ([0.5, 0.6, 0.4, 0.5], [1, 0, 1, 0])


def external_writer():
    """A forest of two forked delegations whose rubrics 'big' wrote without ids, and two execution roots with ids."""
    forest = Forest()
    for sample, (scores, labels) in enumerate((A, B)):
        root = forest.root("a", sample, sample, purpose="rubric")
        for branch, (score, label) in enumerate(zip(scores, labels, strict=True)):
            forest.child(root, 0, branch=branch, k=4, label=label, score=score)
        forest.root("b", sample, sample, purpose="execution")
    for row in forest.rows["turns"]:
        if row["kind"] == "rubric":
            row |= {"role": "writer", "policy": "big", "trainable": False, "logprobs_mode": "none"}
            row |= {"prompt_ids": None, "completion_ids": None, "logprobs": None}
    return forest


def test_an_external_writer_is_named_and_the_other_stages_train():
    credit = compute_credit(external_writer().connect(), open_method("sera"))
    (found,) = untrainable(credit)
    assert (found.stage, found.role, found.policy, found.n_turns, found.n_groups) == ("rubric", "writer", "big", 2, 1)
    require_trainable(credit, ["execution", "delegation"])
    with pytest.raises(StoreError) as fault:
        require_trainable(credit, ["execution", "delegation", "rubric"])
    words = "stage rubric credits 2 turns in 1 group that 'big' spoke as writer without token ids, the first is"
    assert f"{words} {found.first_turn}" in str(fault.value)
    assert "--stage delegation" in str(fault.value)
    assert "--where" in str(fault.value)


def test_what_where_leaves_out_is_not_refused():
    where = Where("mine", "select group_id from credit_rows where stage <> 'rubric'")
    credit = compute_credit(external_writer().connect(), open_method("sera"), where=where)
    require_trainable(credit, ["execution", "delegation", "rubric"])


def test_turns_with_ids_that_are_not_trainable_are_no_business_of_this():
    forest = Forest()
    for sample in (0, 1):
        root = forest.root("a", sample, sample)
        for row in forest.acts(root):
            row["trainable"] = False
    assert untrainable(compute_credit(forest.connect(), open_method("sera"))) == []


def test_what_was_played_without_ids_is_refused_by_the_learner(tmp_path):
    """A sealed store of a script's trees: the feed of a learn phase names the script before anything is trained."""
    config = small_config("policy.model=scripted:teacher", "groups={execution: 4}", "samples=4")
    store, job, _ = play(tmp_path / "s", config)
    sd.seal(store, job.plan.name)
    with pytest.raises(StoreError, match=r"stage execution credits .* that 'scripted:teacher' spoke as act without"):
        Feed(
            store.connect(view="sealed"),
            config=LearnConfig(schedule="execution:1"),
            method=open_method("sera"),
            epoch=0,
            start=0,
            tokenizer_sha256="0" * 64,
        )
