import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

import sera_data as sd
from schemas import TABLES
from sera_data import sealing
from sera_data.canonical import sha256_file
from sera_data.errors import StoreError
from tests.sera_data.object_server import file_at
from tests.sera_data.small_store import CONFIG_HASH, RUN, run_row, small_store, task_id, task_row, unit_rows, write_unit


def claimed(store, units=1, **changes):
    plan = {"run_id": RUN, "phase": "collect", "config_hash": CONFIG_HASH}
    return sd.claim_plan(store, **{**plan, **changes}, units=[{"unit_id": f"u{i:04d}"} for i in range(units)])


@pytest.fixture
def store(place):
    return sd.create(place / "s")


def test_a_sealed_directory_holds_ten_tables_and_their_facts(sealed):
    directory = sealed.layout.epochs / "e000000"
    tables = sorted(p.name.partition(".")[0] for p in directory.glob("*.parquet"))
    assert tables == sorted(name for name, table in TABLES.items() if table.sealed == "always")
    assert len(tables) == 10
    assert len(list(directory.iterdir())) == len(tables) + 1
    body = json.loads((directory / "seal.json").read_text())
    assert body["shards"] == ["e000000.u0000", "e000000.u0001"]
    assert (body["partial"], body["missing"]) == (False, [])
    for table, facts in body["tables"].items():
        (file,) = facts["files"]
        assert sha256_file(directory / file["path"]) == file["sha256"]
        with (directory / file["path"]).open("rb") as handle:
            assert pq.read_metadata(handle).num_rows == facts["rows"] == file["rows"]
            schema = pq.read_schema(handle)
        assert schema.equals(TABLES[table].schema)
        assert b"doc" in schema.field(0).metadata
    (nodes,) = body["tables"]["nodes"]["files"]
    trees = [t for (t,) in sealed.sql("select tree_id from nodes where epoch = 0 order by 1").fetchall()]
    assert (nodes["tree_id_min"], nodes["tree_id_max"]) == (trees[0], trees[-1])
    assert body["tables"]["updates"]["files"][0]["rows"] == 0


def test_rows_are_sorted_and_encoded_as_measured(sealed):
    for name, table in TABLES.items():
        rows = sealed.table(name, epochs=[0]).arrow(table.sort)
        keys = list(zip(*(rows[c].to_pylist() for c in table.sort), strict=True))
        assert keys == sorted(keys)
    with file_at(sealed.path, "epochs/e000000/turns.parquet").open("rb") as handle:
        group = pq.read_metadata(handle).row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    split = [f"{numbers}.list.element" for numbers in ("prompt_ids", "completion_ids", "logprobs")]
    assert {c.compression for path, c in columns.items() if path not in split} == {"ZSTD"}
    assert {columns[path].compression for path in split} == {"LZ4"}
    for numbers in ("prompt_ids", "completion_ids", "logprobs"):
        assert "BYTE_STREAM_SPLIT" in columns[f"{numbers}.list.element"].encodings
        assert not columns[f"{numbers}.list.element"].has_dictionary_page
    assert columns["kind"].has_dictionary_page
    assert not columns["n_prompt"].has_dictionary_page
    kept = {name for name, column in columns.items() if column.is_stats_set}
    assert {"tree_id", "node_id", "turn_id", "epoch"} <= kept  # what the order lets prune, and nothing else
    assert not kept & {"text", "kind", "order_stamp", "prompt_ids.list.element"}


def test_a_node_lies_in_few_row_groups(sealed):
    """Every tree table is sorted by tree first, so that a reader who asks for a node skips the other row groups."""
    for name, table in TABLES.items():
        if "node_id" in table.schema.names or "tree_id" in table.schema.names:
            assert table.sort[0] == "tree_id", name


def test_a_directory_sealed_in_another_order_stays_readable(store, monkeypatch):
    """Stores sealed by task first are read, verified and added to like the others: the order is no contract."""
    plan = claimed(store, units=2)
    for index, unit in enumerate(plan.unit_ids):
        write_unit(store, plan, unit, unit_rows(task_id(index), samples=2, k=2))
    with monkeypatch.context() as patch:
        for name in ("nodes", "turns", "scores"):
            older = replace(TABLES[name], sort=("task_id", *TABLES[name].sort))
            patch.setitem(TABLES, name, older)
        old = sd.seal(store, plan.name)
    after = sd.open(store.path)
    assert sd.verify(after).problems == ()
    assert sd.content_hash(after, plan.name) == old.content_hash
    newer = sd.claim_plan(after, run_id="n-1", phase="collect", config_hash="n", units=[{"unit_id": "u0000"}])
    write_unit(after, newer, "u0000", unit_rows(task_id(0), epoch=1, samples=1, k=2, run_id="n-1"))
    sd.seal(after, newer.name)
    ((node,),) = after.sql("select min(node_id) from nodes where epoch = 0").fetchall()
    assert after.sql("select turn_id from turns where node_id = $n", {"n": node}).fetchall()
    assert len(after.turns.pl()) == old.rows["turns"] + len(after.table("turns", epochs=[1]))


def test_every_unit_is_wanted_and_partial_names_the_missing(store):
    plan = claimed(store, units=3)
    write_unit(store, plan, "u0001", unit_rows(task_id(1), samples=1, k=2))
    with pytest.raises(StoreError, match="misses 2 of 3 units: u0000, u0002"):
        sd.seal(store, plan.name)
    result = sd.seal(store, plan.name, partial=True)
    assert (result.missing, result.rows["nodes"]) == (("u0000", "u0002"), 4)
    again = sd.seal(store, plan.name)
    assert again.already_sealed
    assert again.content_hash == result.content_hash


def test_many_files_when_there_are_many_turns(store, monkeypatch):
    monkeypatch.setattr(sealing, "MAX_ROWS", {"turns": 20})
    monkeypatch.setitem(TABLES, "turns", replace(TABLES["turns"], row_group=10))
    plan = claimed(store)
    write_unit(store, plan, "u0000", unit_rows(task_id(0), samples=2, k=4))
    sd.seal(store, plan.name)
    names = [f["path"] for f in store.seal_document(plan.name)["tables"]["turns"]["files"]]
    rows = [f["rows"] for f in store.seal_document(plan.name)["tables"]["turns"]["files"]]
    stems = [name.partition(".")[0] for name in names]
    assert stems == ["turns", *(f"turns-{i:03d}" for i in range(1, len(names)))]
    assert set(rows[:-1]) == {20}
    assert sum(rows) == len(store.turns) == len(store.turns.pl())
    found = store.turns.arrow(["turn_id"])["turn_id"].to_pylist()
    assert len(set(found)) == sum(rows)
    keys = [tuple(r.values()) for r in store.turns.arrow(list(TABLES["turns"].sort)).to_pylist()]
    assert keys == sorted(keys)


def test_identical_tasks_of_several_shards_count_once(store):
    plan = claimed(store, units=2)
    for unit in plan.unit_ids:
        write_unit(store, plan, unit, {"runs": [run_row()], "tasks": [task_row(task_id(0))]})
    assert sd.seal(store, plan.name).rows["tasks"] == 1
    assert store.sql("select shard_id from task_rows").fetchall() == [("e000000.u0000",)]


def test_different_tasks_of_one_id_are_refused(store):
    plan = claimed(store, units=2)
    for unit, difficulty in zip(plan.unit_ids, ("easy", "hard"), strict=True):
        tasks = [task_row(task_id(0), difficulty=difficulty)]
        write_unit(store, plan, unit, {"runs": [run_row()], "tasks": tasks})
    with pytest.raises(StoreError, match=r"keys: tasks 0/t.*: the key \(epoch, task_id\) is twice in the plan"):
        sd.seal(store, plan.name)


def test_rows_of_an_addition_may_point_to_earlier_seals(place):
    store = small_store(place / "s", tasks=1, samples=1, k=2)
    label = store.sql("select * exclude (run_id, epoch, shard_id, inclusion_probability) from labels").pl().to_dicts()
    rows = {"runs": [run_row(phase="label")], "labels": [{**r, "source": "judge", "kind": "judge"} for r in label]}
    rows["labels"] = [{**r, "inclusion_probability": 1.0} for r in rows["labels"]]
    plan = sd.claim_addition(
        store, 0, run_id="l-1", phase="label", config_hash=CONFIG_HASH, units=[{"unit_id": "u0000"}]
    )
    write_unit(store, plan, "u0000", rows)
    assert sd.seal(store, plan.name).rows["labels"] == 4
    assert len(store.table("labels", epochs=[0])) == 8
    again = sd.claim_addition(
        store, 0, run_id="l-2", phase="label", config_hash=CONFIG_HASH, units=[{"unit_id": "u0000"}]
    )
    write_unit(store, again, "u0000", rows)
    with pytest.raises(StoreError, match=r"labels .*: the key .* was sealed before"):
        sd.seal(store, again.name)


def no_run(rows):
    rows["runs"] = []


def strange_task(rows):
    rows["nodes"][0]["task_id"] = "t" + "0" * 16


def no_parent(rows):
    rows["nodes"] = [n for n in rows["nodes"] if n["parent_id"] is not None]


def no_turn(rows):
    rows["turns"] = [t for t in rows["turns"] if t["kind"] != "rubric"]


def two_committed(rows):
    rows["branches"][1 if rows["branches"][0]["k"] > 1 else 2]["committed"] = True


def branch_missing(rows):
    first = next(b for b in rows["branches"] if b["k"] > 1 and b["branch"] == 1)
    first["node_id"] = None


def other_snapshot(rows):
    next(b for b in rows["branches"] if b["branch"] == 1)["snapshot_digest"] = "0" * 64


def incomplete_without_reason(rows):
    for branch in rows["branches"]:
        branch["complete"] = False


def late_rubric(rows):
    rows["rubrics"][0]["order_stamp"] = 1000


def sample_twice(rows):
    copy = unit_rows(task_id(0), samples=1, k=2, run_id="other-1")
    for table in ("nodes", "turns", "branches", "rubrics", "scores", "labels"):
        rows[table] += copy[table]


def off_path(rows):
    next(n for n in rows["nodes"] if n["branch"] == 0)["on_path"] = False


def half_a_root(rows):
    rows["nodes"][0]["branch"] = 0


def other_tree(rows):
    next(n for n in rows["nodes"] if n["parent_id"])["depth"] = 5


@pytest.mark.parametrize(
    "harm, fault",
    [
        (no_run, "runs: e000000.u0000: the shard has no row in runs"),
        (strange_task, "references: .*: task_id t0000000000000000 is not in tasks"),
        (no_parent, r"references: .*: (parent|node)_id r\w+ is not in nodes"),
        (no_turn, r"references: .*: turn_id r\w+#0002 is not in turns"),
        (two_committed, "branches: .*: branch 0 and only it must be committed"),
        (branch_missing, r"(complete, with 1 of k = 2 branches|is not in branches)"),
        (other_snapshot, "its branches name 2 snapshots"),
        (incomplete_without_reason, "not complete and no exclusion_reason"),
        (late_rubric, "order_stamps: .*: order_stamp 1000 is not before order_start"),
        (sample_twice, "groups: .*: sample 0 has 2 roots"),
        (off_path, "nodes: .*: on_path is false"),
        (half_a_root, "must be null together"),
        (other_tree, "tree_id, task_id and depth must follow from the parent"),
    ],
)
def test_unsound_rows_are_never_sealed(store, harm, fault):
    rows = unit_rows(task_id(0), samples=1, k=2)
    harm(rows)
    plan = claimed(store)
    write_unit(store, plan, "u0000", rows)
    with pytest.raises(StoreError, match=fault):
        sd.seal(store, plan.name)
    assert store.sealed_names() == []
    assert list(store.layout.staging.iterdir()) == []
    assert len(store.nodes) == len(rows["nodes"])


def test_a_group_never_crosses_a_unit(store):
    plan = claimed(store, units=2)
    rows = unit_rows(task_id(0), samples=2, k=2)
    for sample, unit in enumerate(plan.unit_ids):
        trees = {n["tree_id"] for n in rows["nodes"] if n["sample"] == sample}
        part = {t: [r for r in rows[t] if r["tree_id"] in trees] for t in rows if t not in ("runs", "tasks")}
        write_unit(store, plan, unit, {"runs": rows["runs"], "tasks": rows["tasks"], **part})
    with pytest.raises(StoreError, match=r"groups: 0/t\w+: the group is spread over 2 shards"):
        sd.seal(store, plan.name)


def test_a_missing_shard_file_stops_the_seal(store):
    plan = claimed(store)
    write_unit(store, plan, "u0000", unit_rows(task_id(0), samples=1, k=2))
    (file_at(store.path, "shards/e000000.u0000/turns.parquet")).unlink()
    with pytest.raises(StoreError, match=r"turns[.\w]*\.parquet"):
        sd.seal(store, plan.name)
    assert store.sealed_names() == []
