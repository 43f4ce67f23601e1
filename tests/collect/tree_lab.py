"""A tiny world, scripted policies and a checked run of one tree, for the tests of trees.

Invariant: every tree that a test plays is checked against the schemas and the rules of ids and order stamps.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa

from collect.dialect import dialect_for
from collect.policy import Completion, Identity
from collect.services import Services, TreePlan
from collect.settings import TreeSettings
from collect.tree import run_tree
from collect.world import Event, Task, Tool, Verdict
from schemas import TABLES
from sera_data.canonical import canonical_json

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

    name, profile, version, fork, goal_kind = "pot", "p", "v1", "pure", "targets"

    def reset(self, task):
        return tuple(sorted(task.spec["inventory"].items()))

    def root_targets(self, task):
        return task.spec["targets"]

    def enter(self, state, agent, parent):
        return state

    def leave(self, state, agent):
        return state

    def over(self, state):
        return None

    def observe(self, state, agent):
        return json.dumps(dict(state), separators=(",", ":"))

    def apply(self, state, agent, action):
        if action.arguments.get("item") == "crash":
            raise KeyError(action.tool)
        if not isinstance(action.arguments.get("n"), int):
            return state, Event(False, "Error: n must be a number")
        items = Counter(dict(state))
        items[action.arguments["item"]] += action.arguments["n"]
        delta = {action.arguments["item"]: action.arguments["n"], "reward": "MARKER-DELTA"}
        return tuple(sorted(items.items())), Event(True, f"Added, have {items[action.arguments['item']]}.", delta)

    def check_targets(self, state, raw):
        if not isinstance(raw, dict) or not raw or any(not isinstance(n, int) or n < 1 for n in raw.values()):
            msg = "targets must map items to counts of at least 1"
            raise ValueError(msg)
        return raw

    def goal(self, targets):
        return "make " + ", ".join(f"{n}x {item}" for item, n in targets.items())

    def verdict(self, start, end, targets, *, changes=None):
        gained = self.difference(start, end, changes=changes)
        return Verdict(all(gained.get(i, 0) >= n for i, n in targets.items()), {"gained": gained, "m": "MARKER-LABEL"})

    def difference(self, start, end, *, changes=None):
        if changes is not None:
            total = Counter()
            for delta in changes:
                total.update({item: n for item, n in delta.items() if item != "reward"})
            return {item: n for item, n in sorted(total.items()) if n}
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
            path = re.sub(r"b\d+", "b0", path)
        return turns[path][step]

    return reply


def plan(purpose="rubric", **changes):
    spec = {"targets": {"a": 2}, "inventory": {"z": 1}}
    task = Task("t0123456789abcdef", "pot", "p", "train", "easy", "make 2x a", spec)
    return replace(TreePlan("run-1", 3, task, 0, purpose, 7), **changes)


def play(
    act,
    *,
    purpose="rubric",
    writer=None,
    scorer=None,
    world=None,
    plan_changes=None,
    scorer_sampling=None,
    act_sampling=None,
    style="terse",
    judge=None,
    **settings,
):
    policies = {
        "act": act if isinstance(act, Fake) else Fake("player", act),
        "writer": writer or Fake("writer", lambda r: json.dumps(RUBRIC)),
        "scorer": scorer or Fake("scorer", lambda r: json.dumps(SCORE)),
    }
    if scorer_sampling is not None:
        settings["scorer"] = scorer_sampling
    if act_sampling is not None:
        settings["act"] = act_sampling
    world = world or Pot()
    services = Services(
        world=world,
        policies=policies,
        settings=TreeSettings(**settings),
        style=style,
        dialect=dialect_for(world, "auto"),
        judge=judge,
    )
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
