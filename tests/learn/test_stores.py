"""Several stores in one snapshot: their groups never mix, their seals are checked, their trees differ."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import sera_data as sd
from learn.credit import compute_credit
from learn.stores import further_stores, require_different_trees
from sera_data.cli import main
from sera_data.errors import StoreError
from tests.learn.one_stage import one_stage
from tests.sera_data.small_store import small_store


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two stores of different runs, the second of two epochs; a twin of the first, and a stranger."""
    place = tmp_path_factory.mktemp("stores")
    for name, epochs, run_id in (("one", 1, "one-00000001"), ("two", 2, "two-00000002"), ("twin", 1, "one-00000001")):
        small_store(place / name, tasks=1, samples=2, k=2, epochs=epochs, run_id=run_id)
    sd.create(place / "stranger")
    return place


@pytest.fixture
def pair(made, tmp_path):
    """A copy of the stores, to write snapshots into and to damage."""
    return Path(shutil.copytree(made, tmp_path / "stores"))


def take(pair, *texts: str):
    store = sd.open(pair / "one")
    others = further_stores([str(pair / text) for text in texts])
    return store, sd.take_snapshot(store, "both", directories=["e000000"], others=others, credit_hash="x")


def test_a_snapshot_reads_several_stores_and_keeps_their_groups_apart(pair):
    store, snapshot = take(pair, "two@0")
    assert list(json.loads(snapshot.path.read_text())["others"][0]["directories"]) == ["e000000"]
    with store.connect(view="sealed", snapshot="both", files="own") as connection:
        require_different_trees(connection)
        credit = compute_credit(connection, one_stage("execution", reward="rubric"))
        rows = credit.rows
        assert connection.sql("select distinct epoch from turns order by 1").fetchall() == [(0,), (1_000_000,)]
    tasks = {group.partition("/")[2] for group in credit.groups("execution")}
    assert [group.partition("/")[0] for group in credit.groups("execution")] == ["0", "1000000"]
    assert len(tasks) == 1, "the same task, collected twice, in two groups"
    alone = compute_credit(store.connect(view="sealed"), one_stage("execution", reward="rubric")).rows
    assert rows.filter(group_id=f"0/{tasks.pop()}").drop("group_id").equals(alone.drop("group_id"))


def test_the_newest_epoch_is_taken_when_none_is_named(pair):
    _, snapshot = take(pair, "two")
    assert list(snapshot.others[0].seals) == ["e000001"]


def test_a_changed_seal_or_another_store_at_the_path_is_refused(pair):
    store, _ = take(pair, "two")
    seal = pair / "two" / "epochs" / "e000001" / "seal.json"
    seal.write_text(seal.read_text() + " ")
    with pytest.raises(StoreError, match=r"names e000001 with seal .* restore epochs/e000001 from the copy"):
        store.connect(view="sealed", snapshot="both")
    (pair / "two").rename(pair / "gone")
    with pytest.raises(StoreError, match="does not exist"):
        store.connect(view="sealed", snapshot="both")
    (pair / "stranger").rename(pair / "two")
    with pytest.raises(StoreError, match="put the store back where it was"):
        store.connect(view="sealed", snapshot="both")


def test_stores_that_hold_the_same_trees_or_are_the_same_are_refused(pair):
    with pytest.raises(StoreError, match=r"is the same as .*one; a snapshot reads each store once"):
        take(pair, "one")
    store, _ = take(pair, "twin")
    with store.connect(view="sealed", snapshot="both") as connection, pytest.raises(StoreError) as caught:
        require_different_trees(connection)
    assert "is in 2 of the stores: they were written by the same run" in str(caught.value)


def test_credit_of_two_stores_on_the_command_line(pair, capsys):
    args = ["credit", str(pair / "one"), "--method", "rubric_reward", "--json"]
    assert main(args) == 0
    one = json.loads(capsys.readouterr().out)
    assert main([*args, "--with", str(pair / "two@0")]) == 0
    both = json.loads(capsys.readouterr().out)
    assert (both["groups_used"], both["rows"]) == (2 * one["groups_used"], 2 * one["rows"])
    assert main([*args, "--with", str(pair / "two@7")]) == 1
    assert "epoch 7 is not among them; sealed are: [0, 1]" in capsys.readouterr().err
