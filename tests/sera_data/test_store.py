import json
import subprocess
import sys

import pytest

import sera_data as sd
from schemas import TABLES
from sera_data.errors import StoreError
from tests.sera_data.small_store import small_store


def rewrite(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, sera_data; sys.exit(str({'pyarrow', 'duckdb', 'polars', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "set()"


def test_create_is_idempotent(tmp_path):
    first = sd.create(tmp_path / "a" / "s")
    again = sd.create(tmp_path / "a" / "s")
    assert first.store_id == again.store_id
    assert sorted(p.name for p in first.path.iterdir()) == sorted(
        ["store.json", "_staging", "plans", "shards", "epochs", "snapshots"]
    )
    assert repr(again).startswith("Store(")


def test_a_missing_store_says_what_to_do(tmp_path):
    with pytest.raises(StoreError, match=r"does not exist \(hint: "):
        sd.open(tmp_path / "no")
    (tmp_path / "dir").mkdir()
    with pytest.raises(StoreError, match=r"it has no store.json"):
        sd.open(tmp_path / "dir")


@pytest.mark.parametrize("key, what", [("format_version", "format version"), ("schema_version", "schema version")])
def test_a_newer_store_is_refused(place, key, what):
    store = sd.create(place / "s")
    rewrite(store.layout.store_file, **{key: "2.0"})
    with pytest.raises(
        StoreError, match=rf"store.json: {what} 2.0 is newer than this release.*pip install -U sera-data"
    ):
        sd.open(store.path)
    rewrite(store.layout.store_file, **{key: "0.9"})
    with pytest.raises(StoreError, match="is older than this release"):
        sd.open(store.path)
    rewrite(store.layout.store_file, **{key: "one"})
    with pytest.raises(StoreError, match=r"not of the form MAJOR.MINOR"):
        sd.open(store.path)


def test_a_newer_minor_version_is_read(place):
    store = sd.create(place / "s")
    rewrite(store.layout.store_file, schema_version="1.7")
    assert sd.open(store.path).path == store.path


def test_a_seal_or_shard_of_a_newer_release_is_refused(place):
    store = small_store(place / "s", tasks=1, samples=1, k=2)
    rewrite(store.layout.epochs / "e000000" / "seal.json", schema_version="3.1")
    with pytest.raises(StoreError, match=r"seal.json: schema version 3.1 is newer"):
        sd.open(store.path).nodes.pl()
    other = small_store(place / "o", tasks=1, samples=1, k=2, sealed=False)
    rewrite(other.layout.shards / "e000000.u0000" / "commit.json", schema_version="3.1")
    with pytest.raises(StoreError, match=r"commit.json: schema version 3.1 is newer"):
        sd.open(other.path).nodes.pl()


def test_a_store_without_one_of_its_directories_is_named(tmp_path):
    store = sd.create(tmp_path / "s")
    (store.path / "epochs").rmdir()
    with pytest.raises(StoreError, match="lacks its directory epochs/"):
        sd.open(store.path)


def test_directories_that_git_drops_because_they_are_empty_come_back(tmp_path):
    store = small_store(tmp_path / "s", tasks=1, samples=1, k=2)
    counted = store.sql("select count(*) from nodes").fetchall()
    sd.collect_garbage(store, staging_hours=0, sealed_hours=0)
    for name in ("_staging", "shards", "snapshots"):
        (store.path / name).rmdir()
    again = sd.open(store.path)
    assert again.sql("select count(*) from nodes").fetchall() == counted
    assert (store.path / "shards").is_dir()


def test_names_that_do_not_exist(sealed):
    with pytest.raises(AttributeError, match="tables: runs, tasks"):
        _ = sealed.nodez
    with pytest.raises(StoreError, match="no table 'nodez'"):
        sealed.table("nodez")
    with pytest.raises(AttributeError, match="no attribute 'nodez'"):
        _ = sd.nodez
    with pytest.raises(StoreError, match="view 'dead'"):
        sealed.listing(view="dead")


def test_sql_binds_parameters_and_sees_new_shards(place):
    store = small_store(place / "s", tasks=1, samples=1, k=2)
    query = "select count(*) from nodes where depth = $depth"
    first = store.sql(query, {"depth": 1})
    assert first.fetchall() == [(2,)]
    small_store(store.path, tasks=1, samples=1, k=2, sealed=False, run_id="other-1")
    assert store.sql(query, {"depth": 1}).fetchall() == [(4,)]
    assert store.sql("select count(*) from nodes where depth = ?", [0]).fetchall() == [(2,)]


def test_views_of_a_store(sealed):
    assert sealed.table("nodes", epochs=[1]).arrow(["epoch"])["epoch"].unique().to_pylist() == [1]
    assert len(sealed.table("nodes", epochs=[])) == 0
    assert {name: len(sealed.table(name)) for name in TABLES}["nodes"] == 88
    one = sealed.connect(view="sealed", epochs=[0])
    assert one.sql("select count(*) from nodes").fetchall() == [(44,)]
