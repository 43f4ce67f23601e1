import math

import pytest

import sera_data as sd
from sera_data.errors import RowError, StoreError
from tests.sera_data.small_store import CONFIG_HASH, RUN, small_store, task_id, unit_rows, write_unit


@pytest.fixture
def store(place):
    return sd.create(place / "s")


@pytest.fixture
def plan(store):
    units = [{"unit_id": "u0000"}, {"unit_id": "u0001"}]
    return sd.claim_plan(store, run_id=RUN, phase="collect", config_hash=CONFIG_HASH, units=units)


@pytest.fixture
def rows():
    return unit_rows(task_id(0), samples=1, k=2)


def nothing_written(store):
    assert list(store.layout.shards.iterdir()) == []
    assert list(store.layout.staging.iterdir()) == []


def refused(store, plan, rows, match):
    with pytest.raises(RowError, match=match):
        write_unit(store, plan, "u0000", rows)
    nothing_written(store)


def test_a_retried_unit_is_committed_once(store, plan, rows):
    first = write_unit(store, plan, "u0000", rows)
    assert (first.shard_id, first.already_committed, first.rows["nodes"]) == ("e000000.u0000", False, 4)
    second = write_unit(store, plan, "u0000", unit_rows(task_id(5), samples=2, k=2))
    assert (second.already_committed, second.rows) == (True, first.rows)
    assert store.sql("select count(*) from nodes").fetchall() == [(4,)]
    assert list(store.layout.staging.iterdir()) == []


def test_the_race_of_two_writers_is_decided_by_the_rename(store, plan, rows, monkeypatch):
    early = sd.ShardWriter(store, plan, "u0000")
    for table, table_rows in rows.items():
        early.extend(table, table_rows)
    write_unit(store, plan, "u0000", rows)
    monkeypatch.setattr(
        sd.Plan, "has_committed", lambda _plan, _unit: False
    )  # the early writer looked before the other's rename
    assert early.commit().already_committed
    assert list(store.layout.staging.iterdir()) == []
    assert store.sql("select count(*) from nodes").fetchall() == [(4,)]


def test_provenance_is_filled_in_and_checked(store, plan, rows):
    write_unit(store, plan, "u0000", rows)
    found = store.sql("select distinct run_id, epoch, shard_id from turns").fetchall()
    assert found == [(RUN, 0, "e000000.u0000")]
    rows["nodes"][0]["epoch"] = 7
    with pytest.raises(RowError, match="column 'epoch' is 7, this shard writes 0"):
        write_unit(store, plan, "u0001", rows)


def test_a_unit_of_a_sealed_plan_is_refused_or_known(place, rows):
    store = small_store(place / "sealed", tasks=2, samples=1, k=2, sealed=False)
    sd.seal(store, "e000000")
    plan = sd.read_plan(store, "e000000")
    assert write_unit(store, plan, "u0001", rows).already_committed
    sd.collect_garbage(store, sealed_hours=0)
    assert write_unit(store, plan, "u0001", rows).already_committed


def test_a_unit_that_a_partial_seal_misses_is_refused(store, plan, rows):
    late = sd.ShardWriter(store, plan, "u0001")
    late.extend("runs", rows["runs"])
    write_unit(store, plan, "u0000", rows)
    sd.seal(store, plan.name, partial=True)
    with pytest.raises(StoreError, match="sealed without unit u0001"):
        sd.ShardWriter(store, plan, "u0001")
    with pytest.raises(StoreError, match="sealed without unit u0001"):
        late.commit()
    assert list(store.layout.staging.iterdir()) == []
    assert store.shard_ids() == ["e000000.u0000"]


def test_unknown_table_and_column(store, plan):
    writer = sd.ShardWriter(store, plan, "u0000")
    with pytest.raises(RowError, match="no table 'nodez'; allowed: runs"):
        writer.add("nodez", {})
    with pytest.raises(RowError, match="unknown column 'colour'; allowed: run_id"):
        writer.add("nodes", {"node_id": "r1", "colour": 1})


@pytest.mark.parametrize(
    "table, column, value, fault",
    [
        ("nodes", "outcome", "won", "got 'won'; allowed: finished"),
        ("nodes", "goal", None, "is null; the column has no nulls"),
        ("nodes", "depth", 1.5, "got 1.5; allowed: int8"),
        ("nodes", "depth", 400, "got 400; allowed: int8"),
        ("nodes", "depth", True, "got True; allowed: int8"),
        ("nodes", "goal", 3, "got 3; allowed: string"),
        ("nodes", "on_path", 1, "got 1; allowed: bool"),
        ("turns", "prompt_ids", [1, None], "has a null element"),
        ("turns", "prompt_ids", [1, 2.0], "has float elements"),
        ("turns", "tool_calls", [{"tool": "craft", "cost": 1}], "unknown member 'cost'"),
        ("turns", "tool_calls", [{"tool": 5}], "got .*Expected bytes"),
        ("scores", "final_score", math.nan, "got nan; allowed: finite numbers"),
        ("labels", "value", math.inf, "got inf; allowed: finite numbers"),
        ("rubrics", "items", [{"name": "a", "weight": math.nan}], "element 0 member 'weight' got nan"),
    ],
)
def test_a_bad_value_names_row_and_column(store, plan, rows, table, column, value, fault):
    row = rows[table][0]
    row[column] = value
    key = {"nodes": "node_id", "turns": "turn_id", "labels": "node_id", "scores": "rubric_id", "rubrics": "rubric_id"}
    refused(store, plan, rows, rf"(?s){row[key[table]]}.*column '{column}' .*{fault}")


def test_a_missing_column_is_named(store, plan, rows):
    del rows["nodes"][1]["seed"]
    refused(store, plan, rows, r"column 'seed' is missing")


def test_a_key_twice_is_refused(store, plan, rows):
    rows["labels"].append(dict(rows["labels"][0]))
    refused(store, plan, rows, "the key is twice in shard e000000.u0000")
