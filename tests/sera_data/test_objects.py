"""A store in object storage, on a real server process: the same life as on disk, races for a unit and for a seal."""

import threading

import pytest

import sera_data as sd
from sera_data import bucket as client
from sera_data.bucket import bucket as bucket_of
from sera_data.errors import StoreError, UsageError
from sera_data.objects import Objects
from sera_data.place import ObjectPath, place
from tests.sera_data.object_lab import ROWS, keys, planned
from tests.sera_data.object_server import KEYS
from tests.sera_data.small_store import small_store, write_unit


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("s3://bucket/a/b", ObjectPath("bucket", "a/b")),
        ("s3:/bucket/a/b/", ObjectPath("bucket", "a/b")),
        ("s3://bucket", ObjectPath("bucket", "")),
    ],
)
def test_a_url_is_a_place(name, wanted):
    assert place(name) == wanted == place(str(wanted))
    assert (wanted / "x.json").stem == "x"
    assert (wanted / "c" / "d").parent == wanted / "c"


@pytest.mark.parametrize("name", ["gs://b/x", "https://b/x", "s3://b/../x", "s3://"])
def test_other_urls_are_refused(name):
    with pytest.raises(UsageError, match="allowed are a directory and s3://BUCKET/PREFIX"):
        place(name)


def test_a_store_has_the_same_life_as_on_disk(objects, tmp_path):
    """Made, sealed, read by four readers, snapshotted, cleaned and verified; equal content to its twin on disk."""
    far, near = (small_store(where / "s", tasks=1, samples=1, k=2) for where in (objects, tmp_path))
    assert sd.content_hash(far, "e000000") == sd.content_hash(near, "e000000")
    assert far.sealed_names() == ["e000000"]
    rows = near.nodes.arrow()
    assert far.nodes.arrow().equals(rows)
    assert far.nodes.pl().equals(near.nodes.pl())
    assert [row["node_id"] for row in far.nodes.hf(["node_id"])] == rows["node_id"].to_pylist()
    query = "select node_id, weighted_score from scored order by all"
    assert far.sql(query).fetchall() == near.sql(query).fetchall()
    sd.take_snapshot(far, "mine", directories=["e000000"])
    assert sd.collect_garbage(far, sealed_hours=0, staging_hours=0).shards == ("e000000.u0000",)
    again = sd.open(str(far.path))
    assert sd.verify(again).problems == ()
    assert again.connect(snapshot="mine").sql("select count(*) from turns").fetchall() == [(len(near.turns),)]
    assert not any(key.startswith(("shards/", "_staging/")) for key in keys(far.path))


@pytest.mark.slow
def test_a_query_of_somebody_else_reads_the_store_and_nothing_beside_it(objects, tmp_path):
    import duckdb

    store = small_store(objects / "s", tasks=1, samples=1, k=2)
    other = small_store(objects / "other", tasks=1, samples=1, k=2)
    (tmp_path / "secret.csv").write_text("a\n1\n")
    connection = store.connect(files="own")
    assert connection.sql("select count(*) from nodes").fetchall() == [(4,)]
    for name in (str(tmp_path / "secret.csv"), str(other.nodes.files[0])):
        with pytest.raises(duckdb.Error):
            connection.sql(f"from '{name}'").fetchall()


def test_two_writers_of_one_unit_make_one_commit(objects, monkeypatch):
    """Both have put all their files before either puts its document."""
    store, plan = planned(objects / "s")
    meeting = threading.Barrier(2)
    arrived = Objects._require_arrived

    def meet(self, where, wanted):
        arrived(self, where, wanted)
        meeting.wait(timeout=60)

    monkeypatch.setattr(Objects, "_require_arrived", meet)
    results = []

    def write():
        own = sd.open(store.path)
        results.append(write_unit(own, sd.read_plan(own, plan.name), "u0000", ROWS["u0000"]))

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.already_committed for result in results) == [False, True]
    named = {file["path"] for file in store.commit_document("e000000.u0000")["files"].values()}
    there = {key.removeprefix("shards/e000000.u0000/") for key in keys(store.path) if key.startswith("shards/")}
    assert there == named | {"commit.json"}, "the beaten writer took its files back"
    assert len({name.split(".")[1] for name in named}) == 1
    assert sd.verify(sd.open(store.path)).problems == ()


def test_a_partial_seal_and_a_late_commit_cannot_both_win(objects):
    store, plan = planned(objects / "s")
    write_unit(store, plan, "u0000", ROWS["u0000"])
    medium = store.medium

    late = sd.ShardWriter(store, plan, "u0001")
    for table, rows in ROWS["u0001"].items():
        late.extend(table, rows)
    assert medium.close([store.layout.shards / "e000000.u0001"]) == []  # the seal stands just before its last put
    with pytest.raises(StoreError, match="sealed without unit u0001"):
        late.commit()
    assert store.shard_ids() == ["e000000.u0000"]
    assert sd.seal(store, plan.name, partial=True).missing == ("u0001",)
    assert sd.verify(sd.open(store.path)).problems == ()
    with pytest.raises(StoreError, match="sealed without unit u0001"):
        write_unit(store, plan, "u0001", ROWS["u0001"])


@pytest.mark.slow
def test_a_commit_while_a_partial_seal_uploads_stops_the_seal(objects, monkeypatch):
    store, plan = planned(objects / "s")
    write_unit(store, plan, "u0000", ROWS["u0000"])
    closing = Objects.close

    def close(self, directories):
        write_unit(sd.open(store.path), plan, "u0001", ROWS["u0001"])
        return closing(self, directories)

    with monkeypatch.context() as patch:
        patch.setattr(Objects, "close", close)
        with pytest.raises(StoreError, match=r"e000000\.u0001 was committed meanwhile \(hint: seal again"):
            sd.seal(store, plan.name, partial=True)
    assert sd.seal(store, plan.name).missing == ()
    assert len(store.sql("select distinct task_id from nodes where epoch = 0").fetchall()) == 2


def test_a_writer_that_slept_until_gc_is_too_late(objects):
    """Its unit was left out of the seal and gc removed what closed it: the commit is withdrawn."""
    store, plan = planned(objects / "s")
    write_unit(store, plan, "u0000", ROWS["u0000"])
    sd.seal(store, plan.name, partial=True)
    assert "e000000.u0001.closed" in sd.collect_garbage(store, staging_hours=0).staging
    late = sd.open(store.path)
    writer = object.__new__(sd.ShardWriter)  # as if it had been made before the seal
    writer.__dict__.update(store=late, plan=plan, unit_id="u0001", shard_id="e000000.u0001")
    writer.target = late.layout.shards / "e000000.u0001"
    assert late.medium.publish_directory(staged(late), writer.target)
    with pytest.raises(StoreError, match="sealed without unit u0001"):
        writer._require_in_time()
    assert late.shard_ids() == ["e000000.u0000"]


def staged(store):
    staging = store.medium.stage("test")
    (staging.path / staging.file_name("nodes.parquet")).write_bytes(b"rows")
    (staging.path / "commit.json").write_bytes(b"{}")
    return staging


def test_large_files_go_in_parts(objects, tmp_path, monkeypatch):
    monkeypatch.setattr(client, "PART_BYTES", 5 * 2**20)
    data = bytes(range(256)) * (11 * 2**12)
    (tmp_path / "large").write_bytes(data)
    where = objects / "large"
    bucket_of(where.bucket).upload(where.key, tmp_path / "large")
    assert where.stat().st_size == len(data)
    with where.open("rb") as handle:
        assert handle.read() == data
        handle.seek(7 * 2**20 + 3)
        assert handle.read(2) == data[7 * 2**20 + 3 :][:2]


@pytest.mark.slow
def test_nothing_in_the_bucket_knows_the_keys(objects):
    store = small_store(objects / "s", tasks=1, samples=1, k=2)
    held = bucket_of(store.path.bucket)
    for fact in held.listing(store.path.key):
        data = held.get(fact.key)
        assert not any(value.encode() in data for name, value in KEYS.items() if "KEY" in name)
        assert b"127.0.0.1" not in data


def test_no_store_and_no_bucket_say_so(objects):
    with pytest.raises(StoreError, match=rf"store {objects}/none does not exist"):
        sd.open(objects / "none")
    (objects / "dir" / "x").write_bytes(b"")
    with pytest.raises(StoreError, match="is not a store"):
        sd.open(objects / "dir")
    with pytest.raises(StoreError, match="s3://sera-tests-none/"):
        sd.create("s3://sera-tests-none/s")
