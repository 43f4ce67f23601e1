"""Trees of a store as a replay takes them, a few at a time.

Invariant: rows are read as they are stored, by the queries `sql/replay_*.sql`; of all trees only one batch is in
memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

from collect.replay import Replay, StoredTree, replay_node, task_of_row
from collect.world import World
from collect.worlds import open_world
from sera_data.errors import StoreError
from sera_data.store import Store

BATCH = 200


def trees_with(store: Store, node_id: str | None) -> list[str]:
    """Ids of the trees to replay: that of a node, or all; StoreError for a node that the store does not hold."""
    found = [row["tree_id"] for row in _rows(store, "trees", {"node": node_id})]
    if node_id is not None and not found:
        msg = f"store {store.path} has no node {node_id!r}"
        raise StoreError(msg, hint=f'sera data sql {store.path} "select node_id from nodes" lists them')
    return found


def replay_trees(store: Store, tree_ids: Sequence[str], *, node_id: str | None = None) -> Iterator[Replay]:
    """Replays of one node, or of every node of the trees, in stored order; the trees are in memory together."""
    worlds: dict[tuple[str, str], World[Any]] = {}
    for tree in _stored(store, tree_ids):
        key = (tree.task.world, tree.task.profile)
        if key not in worlds:
            worlds[key] = open_world(key[0], profile=key[1])
        for name in [node_id] if node_id is not None else tree.nodes:
            yield replay_node(worlds[key], tree, name)


def _stored(store: Store, tree_ids: Sequence[str]) -> Iterator[StoredTree]:
    wanted = {"trees": list(tree_ids)}
    tasks = {row["task_id"]: task_of_row(row) for row in _rows(store, "tasks", wanted)}
    nodes: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in tree_ids}
    calls: dict[str, list[dict[str, Any]]] = {name: [] for name in tree_ids}
    for row in _rows(store, "nodes", wanted):
        nodes[row["tree_id"]][row["node_id"]] = row
    for row in _rows(store, "calls", wanted):
        calls[row["tree_id"]].append(row)
    for name in tree_ids:
        task_id = next(iter(nodes[name].values()))["task_id"]
        if task_id not in tasks:
            msg = f"store {store.path}: the task {task_id} of tree {name} is not in it"
            raise StoreError(msg, hint=f"sera data verify {store.path} says what else is missing")
        yield StoredTree(name, tasks[task_id], nodes[name], calls[name])


def _rows(store: Store, query: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    text = files("collect").joinpath("sql", f"replay_{query}.sql").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = store.sql(text, params).pl().to_dicts()
    return found
