"""Which nodes get votes: filters, shares and caps choose the same nodes whenever they are asked."""

import sys
from pathlib import Path

import pytest

import sera_data as sd
from collect.labels import Opinion
from sera_data.errors import StoreError, UsageError

sys.path.insert(0, str(Path(__file__).parent))
from job_lab import play, small_config
from label_lab import Scripted, chosen, copied, judged, label, nodes


@pytest.fixture
def store(tmp_path):
    return copied(tmp_path)


EASY = """
select n.node_id from nodes n join tasks t using (task_id) left join verdicts v using (node_id)
where n.on_path and t.difficulty = 'easy' or v.value = 0
"""
FILTERS = [
    ({}, "select node_id from nodes"),
    ({"depths": (1,)}, "select node_id from nodes where depth = 1"),
    ({"purposes": ("rubric",)}, "select node_id from nodes where purpose = 'rubric'"),
    ({"where": "on_path and difficulty = 'easy' or verdict = 0"}, EASY),
    ({"where": "verdict_kind is null"}, "select node_id from nodes where false"),
    ({"only": "missing"}, "select node_id from nodes where false"),
    ({"where": "depth = 0", "depths": (1, 2)}, "select node_id from nodes where false"),
]


def test_filters_choose_nodes(store):
    for settings, query in FILTERS:
        wanted = {row[0] for row in store.sql(query).fetchall()}
        assert chosen(store, **settings)[0] == wanted, settings
    assert len({len(chosen(store, **settings)[0]) for settings, _ in FILTERS}) > 3


def test_a_condition_that_is_none_is_refused(store):
    for where in ("no_such_column = 1", "depth = 1; drop table nodes", "select", "depth +"):
        with pytest.raises(UsageError, match="--where"):
            chosen(store, where=where)
    assert store.sealed_names() == ["e000000"]


def test_a_share_is_the_same_nodes_whenever_it_is_asked(store):
    half_of, probability = chosen(store, share=0.5, seed=3)
    assert 0 < len(half_of) < len(nodes(store))
    assert probability == {0.5}
    assert half_of < chosen(store, share=0.7, seed=3)[0]
    assert half_of != chosen(store, share=0.5, seed=4)[0]
    label(store, "rule:finish", share=0.5, use="audit", seed=3)
    assert {row["node_id"] for row in judged(store)} == half_of
    assert {row["inclusion_probability"] for row in judged(store)} == {0.5}
    assert chosen(store, share=0.5, use="audit", seed=3) == (set(), set())
    assert store.sql("select count(*) from verdicts where kind = 'judge'").fetchall() == [(0,)]


def test_a_cap_is_a_random_sample_of_known_share(store):
    label(store, "rule:finish", max_labels=5, votes=2)
    rows = judged(store)
    assert [row["attempt"] for row in rows] == [0, 1, 0, 1]
    assert {row["inclusion_probability"] for row in rows} == {2 / len(nodes(store))}
    assert chosen(store, max_labels=5, votes=2) == (set(), set())


def test_audit_votes_do_not_stand_for_train_votes(store):
    label(store, "rule:finish", use="audit")
    label(store, "rule:finish", use="train")
    rows = judged(store)
    assert [(row["use"], row["attempt"]) for row in rows] == [("audit", 0), ("train", 1)] * len(nodes(store))


class Mute(Scripted):
    """A labeller that never reaches a verdict."""

    async def label(self, subject, *, attempt):
        return Opinion(value=None, error="silence")


def test_attempts_end_somewhere(store):
    settings = {"votes": 64, "max_labels": 64, "again": "invalid"}
    for _ in range(2):
        label(store, "rule:finish", labeller=Mute(), **settings)
    assert {row["attempt"] for row in judged(store)} == set(range(128))
    with pytest.raises(UsageError, match="attempts 0 to 127"):
        label(store, "rule:finish", labeller=Mute(), **settings)


def test_only_sealed_epochs_are_labelled(tmp_path):
    store, job, _ = play(tmp_path / "store", small_config("groups={execution: 1}"))
    with pytest.raises(StoreError, match="none is sealed yet"):
        label(store, "rule:finish")
    sd.seal(store, job.plan.name)
    with pytest.raises(StoreError, match="no sealed epoch 7; sealed are 0"):
        label(store, "rule:finish", epochs=(7,))
    label(store, "rule:finish", epochs=(0,))
    assert judged(store)
