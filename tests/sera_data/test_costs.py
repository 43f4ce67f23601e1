"""Cost queries against figures counted by hand on a small store of two methods."""

import json
from datetime import UTC, datetime, timedelta

import pytest

import sera_data as sd
from collect.provenance import accelerators
from sera_data.cli import main
from sera_data.queries import query
from tests.sera_data.small_store import run_row, small_store, task_id, write_unit
from tests.sera_data.small_tree import tree_id

START = datetime(2026, 1, 1, tzinfo=UTC)
UPDATE = {
    "attempt": 0,
    "stage": "execution",
    "loss_kind": "cispo",
    "version_out": 1,
    "group_ids": [],
    "datum_ids": [],
    "n_groups_dropped": 0,
    "n_datums": 0,
    "n_tokens": 0,
    "n_trained_tokens": 0,
    "credit_sha256": "0" * 64,
    "plan_sha256": "0" * 64,
    "snapshot_sha256": "0" * 64,
}


def span(phase, start, end, host="a", gpus=2):
    times = {"started_at": START + timedelta(seconds=start), "ended_at": START + timedelta(seconds=end)}
    hardware = json.dumps({"accelerators": ["H200"] * gpus})
    return {**run_row(phase=phase), **times, "host": host, "hardware": hardware}


def add(store, epoch, phase, rows):
    plan = sd.claim_addition(
        store, epoch, run_id=f"{phase}-{epoch}", phase=phase, config_hash=f"{phase}{epoch}", units=[{"unit_id": "u"}]
    )
    write_unit(store, plan, "u", rows)


def vote(node, attempt):
    return {
        "node_id": node,
        "tree_id": node.partition("/")[0],
        "task_id": task_id(0),
        "source": "judge",
        "version": "1",
        "attempt": attempt,
        "kind": "judge",
        "use": "train",
        "inclusion_probability": 1.0,
        "valid": True,
        "value": 1.0,
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "latency_s": 0.5,
    }


@pytest.fixture(scope="module")
def store(new_place):
    """Two epochs of 1 task x 2 trees x (2 + 1 + 1) nodes, one success each; epoch 0 by rao with judge votes."""
    made = small_store(new_place("costs") / "s", epochs=2, tasks=1, samples=2, k=2)
    root = tree_id("small-00000000", 0, task_id(0), 0)
    add(made, 0, "label", {"runs": [span("label", 100, 160)], "labels": [vote(root, n) for n in range(3)]})
    timings = {"load_s": 1.0, "forward_backward_s": 4.0, "step_s": 2.0, "total_s": 10.0}
    for epoch, method in ((0, "rao"), (1, "sera")):
        updates = [{**UPDATE, "update": epoch, "version_in": epoch, "method": method, "timings": timings}]
        add(made, epoch, "learn", {"runs": [span("learn", 130, 190 + epoch)], "updates": updates})
    return made


def rows(store, name, level):
    frame = store.sql(query(name)).pl()
    return frame.filter(frame["level"] == level).to_dicts()


def test_table_2_counts_calls_and_tokens_per_method_tree_and_success(store):
    by = {(r["method"], r["measure"]): r for r in rows(store, "cost_calls", "method")}
    assert by["rao", "verifier calls"]["total"] == by["sera", "verifier calls"]["total"] == 8
    assert by["rao", "verifier calls"]["per_tree"] == 4
    assert by["rao", "verifier calls"]["per_success"] == 8
    judge = [by["rao", f"judge {what}"]["total"] for what in ("calls", "tokens read", "tokens written")]
    assert judge == [3, 300, 21]
    assert by["sera", "judge calls"]["total"] == 0
    scores = store.sql("select count(*) from scores where epoch = 0").fetchall()[0][0]
    assert by["rao", "scorer calls"]["total"] == scores
    assert by["rao", "scorer tokens written"]["total"] == 4 * scores
    assert by["rao", "scorer tokens read"]["total"] == 2 * scores


def test_levels_add_up(store):
    total = {r["measure"]: r["total"] for r in rows(store, "cost_calls", "all")}
    for level in ("method", "epoch"):
        parts = rows(store, "cost_calls", level)
        assert {m: sum(r["total"] for r in parts if r["measure"] == m) for m in total} == total
    assert total["act calls"] == store.sql("select count(*) from turns where role = 'act'").fetchall()[0][0]


def test_table_7_counts_overlapping_units_once(store):
    by = {(r["method"], r["phase"]): r for r in rows(store, "cost_time", "method")}
    assert by["rao", "label"]["elapsed_s"] == 60
    assert by["rao", "learn"]["elapsed_s"] == 60
    assert by["rao", "together"]["elapsed_s"] == 90  # 100 to 190, of which 30 s are both
    assert by["rao", "together"]["s_per_success"] == 90
    assert by["rao", "label"]["accelerator_hours"] == pytest.approx(60 * 2 / 3600)
    assert by["sera", "together"]["elapsed_s"] == 61
    assert [r["elapsed_s"] for r in rows(store, "cost_time", "all") if r["phase"] == "together"] == [91]


def test_parts_of_the_phases(store):
    by = {(r["method"], r["part"]): r["seconds"] for r in rows(store, "cost_parts", "method")}
    assert by["rao", "judge"] == 1.5
    assert [by["rao", p] for p in ("load", "forward and backward", "optimizer step", "rest")] == [1, 4, 2, 3]


def test_command_prints_a_block_per_level(store, capsys):
    assert main(["data", "costs", str(store.path)]) == 0
    out = capsys.readouterr().out
    assert out.count("verifier calls") == 2
    assert "rao: 2 trees, 1 successes" in out
    assert "Table 7" in out
    assert main(["data", "costs", str(store.path), "--by", "epoch", "--epoch", "1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {(r["level"], r["epoch"], r["method"]) for r in facts["cost_calls"]} == {("epoch", 1, "sera")}


def test_command_refuses_an_epoch_that_is_not_there(store, capsys):
    assert main(["data", "costs", str(store.path), "--epoch", "7"]) == 2
    assert "has no epoch 7" in capsys.readouterr().err


def test_an_empty_store_costs_nothing(place, capsys):
    sd.create(place / "s")
    assert main(["data", "costs", str(place / "s"), "--by", "all", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {r["total"] for r in facts["cost_calls"]} <= {None, 0}


def test_accelerators_are_read_from_the_driver(tmp_path):
    assert accelerators(tmp_path / "none") == []
    for device, text in (("0", "Model: \t\t NVIDIA H200\nIRQ: 1\n"), ("1", "IRQ: 2\n")):
        (tmp_path / device).mkdir()
        (tmp_path / device / "information").write_text(text)
    assert accelerators(tmp_path) == ["NVIDIA H200", "unknown"]
