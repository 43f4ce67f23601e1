"""Replay: execute a stored node's actions again, with its committed children's, from its stored start state.

Invariant: only stored rows and the world's transition function are used; a replay reaches the stored end digest, or
names the first event that came out differently. Events of one shared state are totally ordered by their stamps: an
agent enters at its `order_start`, its calls come at theirs, it leaves at its `order_end`.

Run: ``sera data replay NODE STORE``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from collect.settings import REFERENCE_WORLD_STEPS
from collect.world import Action, Agent, Event, Task, World
from sera_data.canonical import canonical_json, sha256_text
from sera_data.errors import StoreError

Row = Mapping[str, Any]
Kind = Literal["enter", "call", "leave"]
Status = Literal["same", "different", "no_end"]
SHOWN = 200


@dataclass(frozen=True, slots=True)
class Difference:
    """The first event that came out differently: where it is, what was stored and what came out now."""

    event: Kind | Literal["end"]
    node_id: str
    turn_id: str | None
    action: str | None
    what: str
    stored: str
    replayed: str


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay found. `no_end`: the node ended by an infrastructure fault and has no end state."""

    node_id: str
    status: Status
    n_calls: int
    difference: Difference | None = None

    def facts(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StoredTree:
    """The rows of one tree: nodes by id, world calls, and the task it played."""

    tree_id: str
    task: Task
    nodes: Mapping[str, Row]
    calls: Sequence[Row]


@dataclass(frozen=True, slots=True)
class _Occurrence:
    stamp: int
    place: int
    kind: Kind
    node: Row
    call: Row | None = None


def task_of_row(row: Row) -> Task:
    """The task of a `tasks` row."""
    return Task(**{**row, "spec": json.loads(row["spec"])})


def replay_node(world: World[Any], tree: StoredTree, node_id: str) -> Replay:
    """Replay one node of a tree; StoreError for an unknown node or a world whose states are live."""
    if node_id not in tree.nodes:
        msg = f"tree {tree.tree_id} has no node {node_id!r}; it has {len(tree.nodes)} nodes"
        raise StoreError(msg, hint="'select node_id from nodes' lists them")
    node = tree.nodes[node_id]
    if node["end_digest"] is None:
        return Replay(node_id, "no_end", 0)
    if world.fork in ("replay", "none"):
        msg = f"world {world.name!r} has live states (fork: {world.fork}), so none can be loaded for a replay"
        raise StoreError(msg, hint="docs/worlds.md says what each kind of fork allows")
    introduce(world, tree.task)
    state = world.load(node["start_state"])
    n_calls = 0
    for occurrence in _occurrences(tree, node):
        state, difference = _repeat(world, state, occurrence, tree)
        if difference is not None:
            return Replay(node_id, "different", n_calls, difference)
        n_calls += occurrence.kind == "call"
    digest = sha256_text(world.dump(state))
    if digest != node["end_digest"]:
        end = Difference("end", node_id, None, None, "digest of the end state", node["end_digest"], digest)
        return Replay(node_id, "different", n_calls, end)
    return Replay(node_id, "same", n_calls)


def introduce(world: World[Any], task: Task) -> None:
    """Let the world build what states of a task refer to, under either budget of shared steps."""
    world.reset(task)
    limited = getattr(world, "limited", None)
    if limited is not None:
        world.reset(limited(task, REFERENCE_WORLD_STEPS))


def _occurrences(tree: StoredTree, node: Row) -> list[_Occurrence]:
    """All that happened to the state that the node worked on, from its start to its end, in order."""
    members = {member["node_id"]: member for member in _members(tree, node)}
    found = [_Occurrence(member["order_start"], 0, "enter", member) for member in members.values()]
    returned = [member for member in members.values() if member["outcome"] != "infra_error"]
    found += [_Occurrence(member["order_end"], 0, "leave", member) for member in returned]
    found += [
        _Occurrence(call["stamp"], call["place"], "call", members[call["node_id"]], call)
        for call in tree.calls
        if call["node_id"] in members
    ]
    found = [item for item in found if node["order_start"] <= item.stamp <= node["order_end"]]
    return sorted(found, key=lambda item: (item.stamp, item.place))


def _members(tree: StoredTree, node: Row) -> Iterator[Row]:
    """The node, its committed descendants and, when it shared its parent's live state, all who shared it too."""
    top = node
    while top["scheduling"] == "parallel" and top["parent_id"] in tree.nodes:
        top = tree.nodes[top["parent_id"]]
    children: dict[str, list[Row]] = {}
    for other in tree.nodes.values():
        if other["committed"] and other["parent_id"] is not None:
            children.setdefault(other["parent_id"], []).append(other)
    waiting = [top]
    while waiting:
        member = waiting.pop()
        yield member
        waiting += children.get(member["node_id"], [])


def _repeat(world: World[Any], state: Any, occurrence: _Occurrence, tree: StoredTree) -> tuple[Any, Difference | None]:
    node, call = occurrence.node, occurrence.call
    try:
        if call is not None:
            return _repeat_call(world, state, node, call)
        if occurrence.kind == "leave":
            return world.leave(state, _agent(node)), None
        stored, now = node["start_state"], world.dump(state)
        if stored != now:
            return state, Difference("enter", node["node_id"], None, None, "start state", _cut(stored), _cut(now))
        parent = tree.nodes.get(node["parent_id"])
        return world.enter(state, _agent(node), None if parent is None else _agent(parent)), None
    except (ValueError, KeyError, TypeError) as fault:
        turn, action = (None, None) if call is None else (call["turn_id"], _shown(call))
        text = f"{type(fault).__name__}: {fault}"
        return state, Difference(occurrence.kind, node["node_id"], turn, action, "the world refused", "", text)


def _repeat_call(world: World[Any], state: Any, node: Row, call: Row) -> tuple[Any, Difference | None]:
    after, event = world.apply(state, _agent(node), Action(call["tool"], json.loads(call["arguments"])))
    for what, stored, now in _compared(call, event):
        if stored != now:
            shown = (_cut(str(stored)), _cut(str(now)))
            return after, Difference("call", node["node_id"], call["turn_id"], _shown(call), what, *shown)
    return after, None


def _compared(call: Row, event: Event) -> Iterator[tuple[str, Any, Any]]:
    yield "ok", call["ok"], event.ok
    yield "result", call["result"], event.result
    yield "delta", call["delta"], None if event.delta is None else canonical_json(event.delta)


def _agent(node: Row) -> Agent:
    return Agent(node["node_id"], node["depth"], None if node["targets"] is None else json.loads(node["targets"]))


def _shown(call: Row) -> str:
    return f"{call['tool']} {_cut(call['arguments'])}"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
