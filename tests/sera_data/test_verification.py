import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sera_data as sd
from schemas import SCHEMA_VERSION
from sera_data.canonical import sha256_file
from sera_data.documents import dump_document, read_document
from sera_data.errors import StoreError
from tests.sera_data.object_server import copied, file_at, on_disk
from tests.sera_data.small_store import small_store


@pytest.fixture(scope="module")
def original(new_place):
    store = small_store(new_place("verify") / "s", tasks=1, samples=1, k=2)
    small_store(store.path, tasks=1, samples=1, k=2, sealed=False, run_id="open-1")
    sd.take_snapshot(store, "mine", directories=["e000000"])
    return store


@pytest.fixture
def store(original, place):
    copied(original.path, place / "copy")
    return sd.open(place / "copy")


def problems(store):
    return [str(p) for p in sd.verify(sd.open(store.path), on_problem="report").problems]


def test_a_sound_store_verifies(original):
    found = sd.verify(original)
    assert (found.directories, found.problems) == (3, ())
    assert found.files == 10 + 8 + 8
    assert found.rows > 0
    assert found.bytes > 0


def truncate(path):
    path.write_bytes(path.read_bytes()[:-50])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "name", ["epochs/e000000/turns.parquet", "shards/e000001.u0000/nodes.parquet", "epochs/e000000/updates.parquet"]
)
@pytest.mark.parametrize(
    "harm, fault",
    [
        (truncate, "is truncated or changed"),
        (flip, "its sha256 is not the recorded"),
        (lambda p: p.unlink(), "is missing"),
    ],
)
def test_a_damaged_file_is_named_with_a_fix(store, name, harm, fault):
    damaged = file_at(store.path, name)
    harm(damaged)
    (found,) = problems(store)
    assert found.startswith(str(damaged))
    assert fault in found
    assert "(fix: restore" in found
    with pytest.raises(StoreError, match=f"has 1 problems: .*{damaged}"):
        sd.verify(store)


def rehash(store, path, rows=None):
    """Record a changed file as if it had been sealed so, to reach the checks behind the hash."""
    seal = store.layout.epochs / "e000000" / "seal.json"
    body = read_document(seal, kind="seal", hint="")
    (file,) = body["tables"][path.stem]["files"]
    file.update(bytes=path.stat().st_size, sha256=sha256_file(path), rows=file["rows"] if rows is None else rows)
    seal.write_bytes(dump_document(body))
    (store.layout.snapshots / "mine.json").unlink()


@on_disk("it rewrites a file with another schema")
def test_wrong_schema_rows_and_bytes_are_named(store):
    path = file_at(store.path, "epochs/e000000/labels.parquet")
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["source"]), path)
    rehash(store, path)
    assert f"lacks column 'source' of schema {SCHEMA_VERSION}" in problems(store)[0]


@on_disk("it rewrites a file with another schema")
def test_a_retyped_column_is_named(store):
    path = file_at(store.path, "epochs/e000000/labels.parquet")
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "run_id", pa.array([1] * table.num_rows)), path)
    rehash(store, path)
    assert "column 'run_id' is int64, not string" in problems(store)[0]


@on_disk("it rewrites a file with another schema")
def test_other_rows_than_recorded_and_unreadable_parquet(store):
    path = file_at(store.path, "epochs/e000000/labels.parquet")
    rehash(store, path, rows=3)
    assert "has 4 rows, e000000 records 3" in problems(store)[0]


@on_disk("it rewrites a file with another schema")
def test_bytes_that_are_not_parquet(store):
    path = file_at(store.path, "epochs/e000000/labels.parquet")
    path.write_bytes(b"PAR1 no parquet PAR1")
    rehash(store, path)
    assert "is not readable Parquet" in problems(store)[0]


@on_disk("it makes empty directories")
def test_strays_that_a_glob_would_read_are_named(store):
    shutil.copy(
        file_at(store.path, "epochs/e000000/turns.parquet"), store.layout.epochs / "e000000" / "turns-9.parquet"
    )
    (store.layout.epochs / "copy of e000000").mkdir()
    (store.layout.shards / "e000001.u0077").mkdir()
    found = " ".join(problems(store))
    assert "turns-9.parquet: is not recorded by seal e000000" in found
    assert "copy of e000000: does not belong here" in found
    assert "e000001.u0077: is in no plan" in found


@on_disk("in a bucket a directory without its document is not published")
def test_a_lost_document_is_named(store):
    (store.layout.shards / "e000001.u0000" / "commit.json").unlink()
    assert any("commit not found" in p for p in problems(store))


def test_a_lost_plan_or_snapshot_is_named(store):
    store.layout.plan_file("e000000").unlink()
    (store.layout.snapshots / "mine.json").write_text("{")
    found = " ".join(problems(store))
    assert "epochs/e000000: has no plan" in found
    assert "snapshot" in found
    assert "mine.json cannot be read" in found
