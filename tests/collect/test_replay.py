"""`sera data replay` on stores: both worlds, both selections, on and off the path; a changed store is found out."""

import json
from functools import cache

import pytest
from typer.testing import CliRunner

import sera_data as sd
from collect.replay_store import replay_trees, trees_with
from schemas import SCHEMA_VERSION
from sera_data.data_cli import app
from sera_data.errors import StoreError
from tests.collect.job_lab import play, small_config
from tests.collect.test_textworld_runner import PARALLEL, run, tasks

KITCHEN = (
    "world={name: textworld, profile: sync-v9, tasks: {generator: textworld, split: dev, per_cell: 1, limit: 6}}",
    "policy.model=scripted:teacher",
    "budgets.launches_per_turn=5",
    "groups={execution: 1, delegation: 0, rubric: 3}",
)


def replay(*arguments):
    result = CliRunner().invoke(app, ["replay", *map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.stdout) if result.stdout else result.exception


@pytest.fixture(scope="module", params=["textcraft-recommended", "textcraft-reference", "textworld-recommended"])
def store(request, tmp_path_factory):
    world, _, selection = request.param.partition("-")
    own = KITCHEN if world == "textworld" else ()
    config = small_config(*own, f"delegation.selection={selection}")
    opened, job, _ = play(tmp_path_factory.mktemp("store") / "s", config)
    sd.seal(opened, job.plan.name)
    return opened


def test_every_node_of_a_store_reaches_its_stored_end(store):
    code, body = replay("--all", store.path)
    counts = store.sql("select count(*), count(*) filter (not on_path) from nodes").fetchall()[0]
    assert (code, body["different"], body["nodes"]["same"]) == (0, [], counts[0])
    assert counts[1] > 0
    assert body["calls"] > counts[0]


def test_one_node_on_or_off_the_path(store):
    for on_path in (True, False):
        query = "select node_id, n_turns from nodes where on_path = ? and depth = 1 and n_turns > 1 limit 1"
        node, turns = store.sql(query, [on_path]).fetchall()[0]
        code, body = replay(node, store.path)
        assert (code, body["nodes"]) == (0, {"same": 1, "different": 0, "no_end": 0})
        assert 0 < body["calls"] <= turns


def test_an_unknown_node_is_named(store):
    with pytest.raises(StoreError, match="has no node 'r0/t9d9b9'"):
        trees_with(store, "r0/t9d9b9")
    assert replay("r0/t9d9b9", store.path)[0] == 1
    assert replay("r0/t9d9b9")[0] != 0


@cache
def cooked(scheduling):
    settings = {"delegation": PARALLEL} if scheduling == "parallel" else {}
    return run("dish_parallel", tasks()[9:10], purpose="execution", **settings)[0]


def stored(path, result, change):
    """A store with one tree, of which `change(rows)` may alter the rows before they are written."""
    rows = {name: [dict(row) for row in table] for name, table in result.rows.items()}
    for turn in rows["turns"]:
        turn["tool_calls"] = [dict(entry) for entry in turn["tool_calls"]]
    change(rows)
    opened = sd.create(path)
    units = [{"unit_id": "u0000", "purpose": "execution"}]
    plan = sd.claim_plan(opened, run_id="run-1", phase="collect", policy_hash="p", config_hash="c", units=units)
    run_row = {"phase": "collect", "schema_version": SCHEMA_VERSION, "code_version": "0", "config": "{}"}
    with sd.ShardWriter(opened, plan, "u0000") as writer:
        writer.add("runs", run_row | {"config_hash": "c", "policies": []})
        for table, given in rows.items():
            writer.extend(table, given)
        writer.commit()
    return opened


def first_cut(rows):
    """The first command of a child that treats a food."""
    for turn in rows["turns"]:
        for entry in turn["tool_calls"]:
            if entry["tool"] == "command" and '"cooked"' in (entry["delta"] or ""):
                return turn, entry
    raise AssertionError


@pytest.mark.parametrize("scheduling", ["parallel", "sequential"])
def test_a_changed_action_is_named(tmp_path, scheduling):
    def change(rows):
        _, entry = first_cut(rows)
        entry["arguments"] = '{"text":"look around"}'

    result = cooked(scheduling)
    whole = stored(tmp_path / "whole", result, lambda rows: None)
    assert replay("--all", whole.path)[0] == 0
    broken = stored(tmp_path / "broken", result, change)
    turn, _ = first_cut(result.rows)
    code, body = replay(turn["node_id"], broken.path)
    assert code == 1
    found = body["different"][0]["difference"]
    assert (found["event"], found["turn_id"]) == ("call", turn["turn_id"])
    assert found["action"] == 'command {"text":"look around"}'
    text = CliRunner().invoke(app, ["replay", turn["node_id"], str(broken.path)])
    assert text.exit_code == 1
    assert f"at call {turn['turn_id']} command" in text.stdout


def test_a_changed_end_and_a_changed_start_are_named(tmp_path):
    def end(rows):
        rows["nodes"][-1]["end_digest"] = "0" * 64

    broken = stored(tmp_path / "end", cooked("sequential"), end)
    results = list(replay_trees(broken, trees_with(broken, None)))
    assert [r.status for r in results] == ["same"] * (len(results) - 1) + ["different"]
    assert results[-1].difference.event == "end"

    def start(rows):
        child = next(n for n in rows["nodes"] if n["depth"] == 1)
        child["start_state"] = child["start_state"].replace('"steps":0', '"steps":1')

    broken = stored(tmp_path / "start", cooked("sequential"), start)
    root = replay(cooked("sequential").root.tree_id, broken.path)[1]["different"][0]["difference"]
    assert (root["event"], root["what"]) == ("enter", "start state")


def test_several_stores_are_searched(tmp_path):
    one = stored(tmp_path / "one", cooked("parallel"), lambda rows: None)
    other = sd.create(tmp_path / "empty")
    assert replay(cooked("parallel").root.tree_id, other.path, one.path)[0] == 0
    assert replay("--all", other.path, one.path)[1]["nodes"]["same"] == len(cooked("parallel").rows["nodes"])
