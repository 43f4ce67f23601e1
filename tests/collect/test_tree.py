"""Trees with a tiny world and scripted policies: outcomes, delegation, forks, rubrics, order."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pyarrow as pa
import pytest

from collect.policy import Completion, Identity, PolicyError
from collect.services import Services, TreePlan
from collect.settings import Budgets, DelegationSettings, RubricSettings, TreeSettings
from collect.tree import run_tree
from collect.world import Event, Task, Tool, Verdict
from schemas import TABLES
from sera_data.canonical import canonical_json, sha256_json
from sera_data.errors import UsageError

RUBRIC = {
    "rubric_items": [
        {"name": "gain", "description": "gained it", "weight": 0.75},
        {"name": "short", "description": "few steps", "weight": 0.25},
    ],
    "success_gate": "SECRET-GATE gained it",
    "failure_conditions": "nothing",
    "scoring_procedure": "weighted",
}
SCORE = {"success": True, "criterion_scores": [1, 0.5], "final_score": 0.9}


class Pot:
    """State: sorted tuple of (item, count). One tool: add {"item", "n"}."""

    name, profile, version, fork = "pot", "p", "v1", "pure"

    def reset(self, task):
        return tuple(sorted(task.spec["inventory"].items()))

    def root_targets(self, task):
        return task.spec["targets"]

    def observe(self, state, agent):
        return json.dumps(dict(state), separators=(",", ":"))

    def apply(self, state, agent, action):
        if action.arguments.get("item") == "crash":
            raise KeyError("crash")
        if not isinstance(action.arguments.get("n"), int):
            return state, Event(False, "Error: n must be a number")
        items = Counter(dict(state))
        items[action.arguments["item"]] += action.arguments["n"]
        delta = {action.arguments["item"]: action.arguments["n"], "reward": "MARKER-DELTA"}
        return tuple(sorted(items.items())), Event(True, f"Added, have {items[action.arguments['item']]}.", delta)

    def check_targets(self, state, raw):
        if not isinstance(raw, dict) or not raw or any(not isinstance(n, int) or n < 1 for n in raw.values()):
            raise ValueError("targets must map items to counts of at least 1")
        return raw

    def goal(self, targets):
        return "make " + ", ".join(f"{n}x {item}" for item, n in targets.items())

    def verdict(self, start, end, targets):
        gained = self.difference(start, end)
        return Verdict(all(gained.get(i, 0) >= n for i, n in targets.items()), {"gained": gained, "m": "MARKER-LABEL"})

    def difference(self, start, end):
        gained = Counter(dict(end))
        gained.subtract(dict(start))
        return {item: n for item, n in sorted(gained.items()) if n}

    def dump(self, state):
        return canonical_json({"inventory": dict(state)})

    def load(self, text):
        return tuple(sorted(json.loads(text)["inventory"].items()))

    def tools(self):
        return (Tool("add", '{"tool":"add","item":"a","n":1}', "Adds."),)


class Fake:
    """A policy that answers with `reply(request)`; an exception in the reply's place is raised."""

    def __init__(self, name, reply, *, version=0):
        self.identity = Identity(name, "fake", version)
        self.renderer, self.trainable = None, False
        self.reply, self.requests, self.released = reply, [], []

    async def complete(self, request):
        self.requests.append(request)
        await asyncio.sleep(0)
        answer = self.reply(request)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Completion):
            return answer
        return Completion(answer, None, None, "stop", "none", self.identity.version)

    def release(self, session):
        self.released.append(session)

    async def close(self):
        pass


def call(tool, **arguments):
    return json.dumps({"tool": tool, **arguments}, separators=(",", ":"))


def done(message="done"):
    return call("finish", message=message)


def script(turns):
    """Reply by node path and step: {"": [...], "/t0d0b0": [...]}; a branch without its own entry plays branch 0."""

    def reply(request):
        path = request.session.partition("/")[2]
        path = "/" + path if path else ""
        step = sum(m.role == "assistant" for m in request.messages)
        if path not in turns:
            path = path[: path.rfind("b")] + "b0"
        return turns[path][step]

    return reply


def plan(purpose="rubric", **changes):
    spec = {"targets": {"a": 2}, "inventory": {"z": 1}}
    task = Task("t0123456789abcdef", "pot", "p", "train", "easy", "make 2x a", spec)
    return replace(TreePlan("run-1", 3, task, 0, purpose, 7), **changes)


def play(act, *, purpose="rubric", writer=None, scorer=None, world=None, plan_changes=None, **settings):
    policies = {
        "act": act if isinstance(act, Fake) else Fake("player", act),
        "writer": writer or Fake("writer", lambda r: json.dumps(RUBRIC)),
        "scorer": scorer or Fake("scorer", lambda r: json.dumps(SCORE)),
    }
    services = Services(world=world or Pot(), policies=policies, settings=TreeSettings(**settings))
    result = asyncio.run(run_tree(plan(purpose, **(plan_changes or {})), services))
    check_rows(result)
    return SimpleNamespace(**result.rows, root=result.root, transcripts=result.transcripts, policies=policies)


def check_rows(result):
    """Rows fit the schemas exactly, keys are unique, order stamps and references hold."""
    for name, rows in result.rows.items():
        table = TABLES[name]
        given = {"run_id": "r", "epoch": 3, "shard_id": "s"}
        for row in rows:
            assert set(row) | set(given) == set(table.schema.names), name
        arrow = pa.Table.from_pylist([row | given for row in rows], schema=table.schema)
        for column in table.columns:
            assert column.nullable or arrow[column.name].null_count == 0, (name, column.name)
            if column.values:
                assert set(arrow[column.name].to_pylist()) <= {*column.values, None}, (name, column.name)
        keys = [tuple((row | given)[k] for k in table.key) for row in rows]
        assert len(set(keys)) == len(keys), name
    nodes = {n["node_id"]: n for n in result.rows["nodes"]}
    turns = {t["turn_id"] for t in result.rows["turns"]}
    for rubric in result.rows["rubrics"]:
        assert rubric["turn_id"] in turns
        for branch in result.rows["branches"]:
            if branch["delegation_id"] == rubric["delegation_id"]:
                assert rubric["order_stamp"] < nodes[branch["node_id"]]["order_start"]
    for node in nodes.values():
        mine = [t for t in result.rows["turns"] if t["node_id"] == node["node_id"]]
        assert [t["turn_id"] for t in mine] == [f"{node['node_id']}#{i:04d}" for i in range(len(mine))]
        stamps = [t["order_stamp"] for t in mine]
        assert stamps == sorted(set(stamps))
        acts = [t["order_stamp"] for t in mine if t["kind"] != "score"]
        assert all(node["order_start"] < s < node["order_end"] for s in acts)


def test_a_plain_tree_is_rows():
    tree = play(
        script(
            {
                "": [call("add", item="a", n=1), call("delegate", targets={"a": 1}, context="hint"), done()],
                "/t1d0b0": [call("add", item="a", n=1), done("made it")],
            }
        ),
        purpose="execution",
    )
    root, child = tree.nodes
    assert tree.root.success is True
    assert (tree.root.n_nodes, tree.root.n_turns, tree.root.n_delegations) == (2, 5, 1)
    assert root["outcome"] == child["outcome"] == "finished"
    assert child["node_id"] == root["node_id"] + "/t1d0b0"
    assert child["parent_id"] == root["node_id"]
    assert (child["goal"], child["context"]) == ("make 1x a", "hint")
    assert child["start_state"] == '{"inventory":{"a":1,"z":1}}'
    assert root["end_state"] == child["end_state"] == '{"inventory":{"a":2,"z":1}}'
    delegated = tree.turns[1]
    assert delegated["observation"] == "Child: made it. Steps used: 2 of 20."
    assert [d["status"] for d in delegated["delegations"]] == ["launched"]
    assert delegated["tool_calls"][0]["delta"] == '{"a":1}'
    assert [label["value"] for label in tree.labels] == [1.0, 1.0]
    assert [t["kind"] for t in tree.turns] == ["act", "act", "rubric", "act", "act", "act", "score"]
    assert tree.branches[0]["k"] == 1
    assert tree.branches[0]["selection"] == "plain"
    assert tree.scores[0]["weighted_score"] == pytest.approx(0.875)
    assert sorted(tree.policies["act"].released) == sorted(n["node_id"] for n in tree.nodes)


def test_prompts_follow_the_fixed_form():
    tree = play(
        script({"": [call("delegate", targets={"a": 2}, context="x"), done()], "/t0d0b0": [done()]}),
        purpose="execution",
        budgets=Budgets(turns=(14, 10), depth=2),
    )
    texts = {(t.role, t.node_id.count("/")): [m.content for m in t.messages] for t in tree.transcripts}
    assert texts["act", 0][:2] == ["You craft items.", 'Goal: make 2x a\nInventory: {"z":1}\nSteps: 14 Depth: 0/2']
    child = 'Goal: make 2x a\nNote: x\nInventory: {"z":1}\nSteps: 10 Depth: 1/2'
    assert texts["act", 1][:2] == ["You craft items.", child]
    assert texts["writer", 0][:2] == ["You write a rubric.", child]
    system, user, answer = texts["scorer", 1]
    assert system == "You score an agent."
    lines = user.split("\n")
    assert lines[0].startswith('Rubric: {"rubric_items":')
    assert lines[1:] == ["Goal: make 2x a", f"> {done()}", "Finish: yes", "Gained: {}"]
    assert json.loads(answer) == SCORE
