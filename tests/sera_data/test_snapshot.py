import json

import pytest

import sera_data as sd
from sera_data.errors import StoreError
from tests.sera_data.small_store import small_store, write_epoch


@pytest.fixture(scope="module")
def store(new_place):
    return small_store(new_place("snap") / "s", epochs=2, tasks=1, samples=1, k=2)


def test_a_snapshot_is_written_once_and_read_back(store):
    taken = sd.take_snapshot(store, "run-e000000", directories=["e000000"], policy_hash="p" * 64, credit_hash=None)
    again = sd.take_snapshot(store, "run-e000000", directories=["e000000"], policy_hash="p" * 64, credit_hash=None)
    assert taken == again == sd.read_snapshot(store, "run-e000000")
    body = json.loads(taken.path.read_text())
    assert body["store_id"] == store.store_id
    assert body["hashes"] == {"credit_hash": None, "policy_hash": "p" * 64}
    with pytest.raises(StoreError, match="names something else; a snapshot is written once"):
        sd.take_snapshot(store, "run-e000000", directories=["e000000", "e000001"])


def test_a_snapshot_fixes_what_is_read(store):
    sd.take_snapshot(store, "first", directories=["e000000"])
    write_epoch(store, tasks=1, samples=1, k=2, version=9)
    fixed = store.connect(snapshot="first")
    assert fixed.sql("select distinct epoch from nodes").fetchall() == [(0,)]
    assert store.table("nodes", snapshot="first").arrow(["epoch"])["epoch"].unique().to_pylist() == [0]


def test_only_sealed_directories_can_be_named(store):
    with pytest.raises(StoreError, match=r"wants sealed directories, got \['e000077'\]"):
        sd.take_snapshot(store, "x", directories=["e000077"])
    with pytest.raises(StoreError, match="got none"):
        sd.take_snapshot(store, "x", directories=[])
    with pytest.raises(StoreError, match="snapshot name"):
        sd.take_snapshot(store, "../x", directories=["e000000"])
    with pytest.raises(StoreError, match="snapshot not found"):
        sd.read_snapshot(store, "never")


def test_a_snapshot_of_another_seal_is_refused(place):
    store = small_store(place / "s", tasks=1, samples=1, k=2)
    sd.take_snapshot(store, "mine", directories=["e000000"])
    seal = store.layout.epochs / "e000000" / "seal.json"
    seal.write_text(seal.read_text() + " ")
    with pytest.raises(StoreError, match="snapshot mine names e000000 with seal"):
        store.connect(snapshot="mine")
    seal.unlink()
    with pytest.raises(StoreError, match=r"seal.json is missing"):
        sd.read_snapshot(sd.open(store.path), "mine")
