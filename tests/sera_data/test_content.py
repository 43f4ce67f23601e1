import hashlib
from dataclasses import replace

import pyarrow as pa
import pytest

import sera_data as sd
from schemas import TABLES
from sera_data import content, sealing
from sera_data.canonical import sha256_json
from sera_data.errors import StoreError
from tests.sera_data.object_server import copied
from tests.sera_data.small_store import CONFIG_HASH, RUN, task_id, unit_rows, write_unit


def sealed(path, *, change=lambda rows: None, order=(0, 1)):
    store = sd.create(path)
    plan = sd.claim_plan(
        store, run_id=RUN, phase="collect", config_hash=CONFIG_HASH, units=[{"unit_id": "u0000"}, {"unit_id": "u0001"}]
    )
    for index in order:
        rows = unit_rows(task_id(index), samples=1, k=2)
        change(rows)
        write_unit(store, plan, plan.unit_ids[index], rows)
    sd.seal(store, plan.name)
    return store


@pytest.fixture(scope="module")
def plain(new_place):
    return sealed(new_place("content") / "s")


def test_the_hash_is_that_of_the_seal_and_of_its_tables(plain):
    body = plain.seal_document("e000000")
    tables = {name: facts["content_hash"] for name, facts in body["tables"].items()}
    assert sd.content_hash(plain, "e000000") == body["content_hash"] == sha256_json(tables)
    assert sd.content_hash(plain, plain.layout.epochs / "e000000") == body["content_hash"]
    with pytest.raises(StoreError, match="is not a sealed directory"):
        sd.content_hash(plain, "e000009")


def later(rows):
    for node in rows["nodes"]:
        node["wall_s"] = 12.5
    for turn in rows["turns"]:
        turn["latency_s"] = 0.25
        turn["n_cached"] = 3
    rows["runs"][0]["host"] = "elsewhere"


def test_times_and_the_order_of_commits_do_not_enter(plain, place):
    other = sealed(place / "s", change=later, order=(1, 0))
    assert sd.content_hash(other, "e000000") == sd.content_hash(plain, "e000000")


def test_files_and_row_groups_do_not_enter(plain, place, monkeypatch):
    monkeypatch.setattr(sealing, "MAX_ROWS", {"turns": 14})
    monkeypatch.setitem(TABLES, "turns", replace(TABLES["turns"], row_group=7))
    other = sealed(place / "s")
    assert len(other.seal_document("e000000")["tables"]["turns"]["files"]) > 1
    assert sd.content_hash(other, "e000000") == sd.content_hash(plain, "e000000")


def score(rows):
    rows["scores"][0]["final_score"] = 0.76


def logprob(rows):
    rows["turns"][0]["logprobs"] = [-0.5, -0.5, -0.5, -0.4999]


def text(rows):
    rows["turns"][0]["error"] = ""


def members(rows):
    rows["turns"][0]["tool_calls"] = [{"tool": "craft", "arguments": None}]


@pytest.mark.parametrize("change", [score, logprob, text, members])
def test_any_other_value_does(plain, place, change):
    other = sealed(place / "s", change=change)
    assert sd.content_hash(other, "e000000") != sd.content_hash(plain, "e000000")


def test_the_hash_is_read_from_the_rows(plain, place):
    copied(plain.path, place / "s")
    store = sd.open(place / "s")
    directory = store.layout.epochs / "e000000"
    seal = directory / "seal.json"
    seal.write_text(seal.read_text().replace('"content_hash": "', '"content_hash": "0'))
    assert sd.content_hash(store, "e000000") == sd.content_hash(plain, "e000000")


def test_blocks_do_not_depend_on_batches():
    rows = pa.table({"x": list(range(10))})
    for size in (1, 3, 10):
        blocks = list(content.in_blocks(iter(rows.to_batches(max_chunksize=size)), 4))
        assert [b.column("x").to_pylist() for b in blocks] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_the_bytes_fed_are_the_same_in_every_release():
    """A golden value: a change of it would make the hashes of old stores unverifiable."""
    ids = pa.list_(pa.field("element", pa.int32(), nullable=False))
    item = pa.struct([pa.field("name", pa.string()), pa.field("weight", pa.float64())])
    items = pa.list_(pa.field("element", item, nullable=False))
    columns = [
        pa.array(["é", None, ""]),
        pa.array([1, None, -3], pa.int8()),
        pa.array([[1, 2], None, []], ids),
        pa.array([[{"name": "a", "weight": 0.5}, {"name": None, "weight": None}], [], None], items),
        pa.array([True, None, False]),
        pa.array([0.25, None, -1.5], pa.float32()),
        pa.array([5, None, 7], pa.timestamp("us", tz="UTC")),
    ]
    digest = hashlib.sha256()
    for column in columns:
        content._feed(digest, column)
    assert digest.hexdigest() == "83923b19f6e9d72d9d7925f839b243d8fa22e276297ff2f5cd7ac863da008021"
