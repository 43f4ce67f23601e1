"""Forked trees of the real world and the teacher script: replay, determinism, and a store that seals and verifies."""

from __future__ import annotations

import asyncio
import json
from functools import cache

import pytest

import sera_data as sd
from collect.scripted import open_policy
from collect.services import Services, TreePlan
from collect.settings import Budgets, DelegationSettings, TreeSettings
from collect.textcraft import TextCraft
from collect.textcraft_tasks import build_tasks
from collect.tree import run_tree
from collect.world import Action, Agent
from schemas import SCHEMA_VERSION

POOL = {"worlds": "1000-1007", "n": 6, "seed": 3, "tier_mix": {2: 0.5, 3: 0.5}}


def grow(selection, run_id="run-1"):
    policy = open_policy("teacher", options={})
    settings = TreeSettings(
        budgets=Budgets(turns=(14, 10, 8), depth=2),
        delegation=DelegationSettings(mode="counterfactual", selection=selection),
    )
    services = Services(
        world=TextCraft(), policies=dict.fromkeys(("act", "writer", "scorer"), policy), settings=settings
    )

    async def run():
        plans = [TreePlan(run_id, 0, task, sample, "rubric", 7) for task in build_tasks(POOL) for sample in range(2)]
        return await asyncio.gather(*(run_tree(plan, services) for plan in plans))

    return asyncio.run(run())


@cache
def grown(selection):
    return grow(selection)


def rows(trees, table):
    return [row for tree in trees for row in tree.rows[table]]


@pytest.mark.parametrize("selection", ["reference", "recommended"])
def test_every_node_can_be_replayed_from_its_start_and_its_calls(selection):
    trees, world = grown(selection), TextCraft()
    nodes = {n["node_id"]: n for n in rows(trees, "nodes")}
    turns = rows(trees, "turns")
    assert any(not n["on_path"] for n in nodes.values())
    for node in nodes.values():
        state = world.load(node["start_state"])
        agent = Agent(node["node_id"], node["depth"], json.loads(node["targets"]))
        for turn in (t for t in turns if t["node_id"] == node["node_id"] and t["kind"] == "act"):
            for launch in turn["delegations"]:
                if launch["status"] == "launched":
                    child = nodes[launch["delegation_id"] + "b0"]
                    assert child["start_state"] == world.dump(state)
                    state = world.load(child["end_state"])
            for call in turn["tool_calls"]:
                if call["tool"] not in ("delegate", "finish"):
                    state, event = world.apply(state, agent, Action(call["tool"], json.loads(call["arguments"])))
                    assert (event.ok, event.result) == (call["ok"], call["result"])
        assert world.dump(state) == node["end_state"]


def test_equal_plans_give_equal_rows_whatever_the_run_is_called():
    def plain(trees):
        volatile = {"started_at", "ended_at", "latency_s", "wall_s", "n_cached"}
        text = json.dumps(
            [[[{k: v for k, v in r.items() if k not in volatile} for r in rs] for rs in t.rows.values()] for t in trees]
        )
        for index, tree in enumerate(trees):
            text = text.replace(tree.root.tree_id, f"tree{index}")
        return text

    assert plain(grown("recommended")) == plain(grow("recommended", run_id="another"))


@pytest.mark.parametrize("selection", ["reference", "recommended"])
def test_the_rows_seal_and_verify(selection, tmp_path):
    trees = grown(selection)
    store = sd.create(tmp_path / "store")
    units = [{"unit_id": "u0000", "purpose": "rubric"}]
    plan = sd.claim_plan(store, run_id="run-1", phase="collect", policy_hash="p", config_hash="c", units=units)
    run = {"phase": "collect", "schema_version": SCHEMA_VERSION, "code_version": "0", "config": "{}"}
    with sd.ShardWriter(store, plan, "u0000") as writer:
        writer.add("runs", run | {"config_hash": "c", "policies": []})
        for table in trees[0].rows:
            given = rows(trees, table)
            writer.extend(table, given if table != "tasks" else {r["task_id"]: r for r in given}.values())
        writer.commit()
    sealed = sd.seal(store, plan.name)
    assert sealed.rows["nodes"] == len(rows(trees, "nodes"))
    assert not sd.verify(store).problems
    mixed = store.sql("select count(distinct delegation_id) from pairs").fetchall()[0][0]
    assert mixed > 0
