import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import sera_data as sd
from sera_data.errors import StoreError, UsageError
from tests.sera_data.object_server import file_at, on_disk
from tests.sera_data.small_store import small_store


@pytest.fixture
def store(place):
    return small_store(place / "s", tasks=1, samples=1, k=2)


@on_disk("it sets file times")
def test_sealed_shards_stay_an_hour_and_then_go(store):
    assert sd.collect_garbage(store).shards == ()
    listed = sd.collect_garbage(store, sealed_hours=0, dry_run=True)
    assert (listed.shards, listed.dry_run) == (("e000000.u0000",), True)
    assert store.shard_ids() == ["e000000.u0000"]
    rows = store.turns.arrow()
    seal = store.layout.epochs / "e000000" / "seal.json"
    os.utime(seal, (time.time() - 3700,) * 2)
    gone = sd.collect_garbage(store)
    assert gone.shards == ("e000000.u0000",)
    assert gone.bytes > 0
    assert store.shard_ids() == []
    assert sd.open(store.path).turns.arrow().equals(rows)
    assert sd.verify(store).problems == ()
    assert sd.collect_garbage(store, sealed_hours=0).shards == ()


def test_open_shards_and_what_a_snapshot_names_are_never_touched(store):
    small_store(store.path, tasks=1, samples=1, k=2, sealed=False, run_id="open-1")
    sd.take_snapshot(store, "mine", directories=["e000000"])
    before = sd.content_hash(store, "e000000")
    assert sd.collect_garbage(store, sealed_hours=0, staging_hours=0).shards == ("e000000.u0000",)
    assert store.shard_ids() == ["e000001.u0000"]
    assert sd.content_hash(store, "e000000") == before
    assert sd.read_snapshot(store, "mine").directories.keys() == {"e000000"}


def test_shards_are_kept_while_their_seal_is_damaged(store):
    path = file_at(store.path, "epochs/e000000/turns.parquet")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(StoreError, match=r"parquet is missing or changed, so the shards of e000000 are kept"):
        sd.collect_garbage(store, sealed_hours=0)
    assert store.shard_ids() == ["e000000.u0000"]


@on_disk("it sets file times")
def test_only_old_staging_goes(store):
    for name, age in (("e000001.u0000.host.1", 90_000), ("e000001.u0001.host.2", 60)):
        path = store.layout.staging / name
        path.mkdir()
        (path / "nodes.parquet").write_bytes(b"half")
        for each in (path / "nodes.parquet", path):
            os.utime(each, (time.time() - age,) * 2)
    assert sd.collect_garbage(store).staging == ("e000001.u0000.host.1",)
    assert [p.name for p in store.layout.staging.iterdir()] == ["e000001.u0001.host.2"]
    with pytest.raises(UsageError, match="hours must be 0 or more"):
        sd.collect_garbage(store, sealed_hours=-1)


@on_disk("it makes directories in _staging/")
def test_several_at_once_do_not_trip_over_each_other(place):
    """Each shard leaves by one rename, which succeeds for one of them."""
    store = small_store(place / "s", tasks=3, samples=1, k=2)
    for name in ("a", "b", "c"):
        (store.layout.staging / name).mkdir()
        (store.layout.staging / name / "half.parquet").write_bytes(b"half")
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: sd.collect_garbage(sd.open(store.path), staging_hours=0, sealed_hours=0), range(4))
    assert {shard for gone in found for shard in gone.shards} == {f"e000000.u{i:04d}" for i in range(3)}
    assert sd.open(store.path).shard_ids() == []
    sd.collect_garbage(sd.open(store.path), staging_hours=0)
    assert list(store.layout.staging.iterdir()) == []
    assert sd.verify(sd.open(store.path)).problems == ()
