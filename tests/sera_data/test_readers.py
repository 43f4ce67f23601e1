"""Every reader gives the same rows: our views, and the plain one-liners of the documentation."""

import os
import time
from dataclasses import replace

import datasets
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as arrow_dataset
import pytest

import sera_data as sd
from schemas import TABLES
from schemas.table import INT32, Column
from sera_data import duck, sealing, verification, writer
from sera_data.errors import StoreError
from tests.sera_data.object_server import file_at, on_disk
from tests.sera_data.small_store import CONFIG_HASH, small_store, task_id, unit_rows, write_unit


@pytest.fixture(scope="module")
def mixed(new_place):
    """One sealed epoch, one that is only committed, half of it."""
    store = small_store(new_place("mixed") / "store", tasks=1, samples=1, k=4)
    units = [{"unit_id": "u0000"}, {"unit_id": "u0001"}]
    plan = sd.claim_plan(store, run_id="live-1", phase="collect", config_hash=CONFIG_HASH, units=units)
    rows = unit_rows(task_id(1), epoch=1, samples=1, k=2, run_id="live-1", tokens=False)
    write_unit(store, plan, "u0001", rows)
    return store


def canonical(table, data):
    schema = pa.schema([f.remove_metadata() for f in table.schema])
    data = data.select(schema.names)
    columns = [pa.chunked_array([c.cast(f.type) for c in data[f.name].chunks], type=f.type) for f in schema]
    rows = pa.table(columns, schema=schema).to_pylist()
    return sorted(rows, key=lambda row: tuple(str(row[key]) for key in table.key))


@pytest.mark.parametrize("name", TABLES)
def test_every_reader_gives_the_same_rows(mixed, name):
    table, view = TABLES[name], mixed.table(name)
    wanted = canonical(table, view.arrow())
    assert len(wanted) == len(view)
    relation = mixed.sql(f"from {duck.RAW.get(name, name)}")
    assert canonical(table, relation.to_arrow_table()) == wanted
    assert canonical(table, view.pl().to_arrow()) == wanted
    assert canonical(table, view.dataset().to_table()) == wanted
    rows = list(view.hf())
    schema = pa.schema([f.remove_metadata() for f in table.schema])
    assert canonical(table, pa.Table.from_pylist(rows, schema=schema)) == wanted


@on_disk("the one-liners are globs of files; in a bucket the store lists them")
@pytest.mark.parametrize("name", ["nodes", "turns", "updates"])
def test_the_plain_one_liners_read_sealed_directories(sealed, name):
    table, wanted = TABLES[name], canonical(TABLES[name], sealed.table(name).arrow())
    pattern = str(sealed.path / "epochs" / "*" / f"{name}*.parquet")
    found = duckdb.sql(f"from read_parquet('{pattern}', union_by_name = true, hive_partitioning = false)")
    assert canonical(table, found.to_arrow_table()) == wanted
    assert canonical(table, pl.scan_parquet(pattern, hive_partitioning=False).collect().to_arrow()) == wanted
    assert (
        canonical(
            table,
            arrow_dataset.dataset(
                sorted(map(str, sealed.path.glob(f"epochs/*/{name}*.parquet"))), schema=table.schema
            ).to_table(),
        )
        == wanted
    )
    if wanted:
        features = datasets.Features.from_arrow_schema(table.schema)
        stream = datasets.load_dataset("parquet", data_files=pattern, split="train", streaming=True, features=features)
        assert len(list(stream)) == len(wanted)


def test_columns_can_be_chosen(mixed):
    assert mixed.nodes.pl(["node_id"]).columns == ["node_id"]
    assert mixed.nodes.arrow(["node_id"]).column_names == ["node_id"]
    assert list(next(iter(mixed.nodes.hf(["depth", "node_id"])))) == ["depth", "node_id"]
    assert mixed.nodes.lazy().filter(pl.col("depth") == 0).collect().height == 2


def test_live_and_sealed_views_differ_by_the_open_shards(mixed):
    assert mixed.connect(view="sealed").sql("select distinct epoch from nodes").fetchall() == [(0,)]
    assert mixed.connect(view="live").sql("select count(distinct epoch) from nodes").fetchall() == [(2,)]


def test_a_shard_and_its_seal_are_never_both_read(place):
    store = small_store(place / "s", tasks=2, samples=1, k=2, sealed=False)
    before = canonical(TABLES["turns"], store.turns.arrow())
    listing_before = store.table("turns")
    sd.seal(store, "e000000")
    assert canonical(TABLES["turns"], store.turns.arrow()) == before
    assert canonical(TABLES["turns"], listing_before.arrow()) == before  # the older listing still reads its shards


def test_a_column_added_later_is_null_in_older_files(place, monkeypatch):
    """A minor version adds a nullable column: old shards and seals, and new ones, are read together."""
    store = small_store(place / "s", tasks=1, samples=1, k=2)
    added = (*TABLES["scores"].columns, Column("mood", INT32, "Added in 1.9.", nullable=True))
    monkeypatch.setitem(TABLES, "scores", replace(TABLES["scores"], columns=added))
    for module in (duck, sealing, verification, writer):
        monkeypatch.setattr(module, "SCHEMA_VERSION", "1.9")
    plan = sd.claim_plan(store, run_id="n-1", phase="collect", config_hash="n", units=[{"unit_id": "u0000"}])
    rows = unit_rows(task_id(0), epoch=1, samples=1, k=2, run_id="n-1")
    rows["scores"] = [{**row, "mood": 7} for row in rows["scores"]]
    write_unit(store, plan, "u0000", rows)
    for sealed in (False, True):
        if sealed:
            sd.seal(store, plan.name)
        query = "select epoch, mood, count(*) from scores group by all order by all"
        wanted = [(0, None, 3), (1, 7, 3)]
        assert store.sql(query).fetchall() == wanted
        table = store.scores.arrow()
        assert canonical(TABLES["scores"], table) == canonical(TABLES["scores"], store.scores.pl().to_arrow())
        assert sorted(map(str, table["mood"].to_pylist())) == ["7"] * 3 + ["None"] * 3
    assert sd.verify(store).problems == ()


def test_a_truncated_or_missing_file_is_named_before_reading(place):
    store = small_store(place / "s", tasks=1, samples=1, k=2)
    path = file_at(store.path, "epochs/e000000/turns.parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(StoreError, match=r"turns\S+ has \d+ bytes; seal e000000 records \d+ \(hint: restore"):
        store.sql("select 1 from turns")
    path.unlink()
    with pytest.raises(StoreError, match=r"turns[.\w]*\.parquet is missing; seal e000000 records it"):
        store.nodes.pl()


@on_disk("it fills _staging/")
def test_what_is_in_staging_is_never_read(mixed):
    before = len(mixed.nodes.pl())
    leftover = mixed.layout.staging / "e000001.u0000.host.1"
    leftover.mkdir()
    (leftover / "nodes.parquet").write_bytes(b"PAR1 half a file")
    os.utime(leftover, (time.time() - 90_000,) * 2)
    assert len(mixed.nodes.pl()) == before
    assert mixed.sql("select count(*) from nodes").fetchall() == [(before,)]
