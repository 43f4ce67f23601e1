"""Stored nodes as labellers get them.

Invariant: reads named columns only (no label, score or outcome of the environment is loaded beside a node); a state is
loaded by its own world after the node's task was reset, as a fresh process must do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from collect.label_selection import query, stored_world
from collect.replay import introduce
from collect.steps import changes_of_turns, steps_of
from collect.subject import Subject
from collect.world import Task, World
from sera_data.errors import StoreError

if TYPE_CHECKING:
    import duckdb

SUBJECT_QUERIES = ("label_subjects", "label_steps", "label_goals")
"""What `load_subjects` asks of its connection, by name."""


def load_subjects(con: duckdb.DuckDBPyConnection, nodes: Sequence[str]) -> dict[str, Subject]:
    """The subjects of these nodes by id; StoreError names a node that is missing or whose state its world refuses."""
    rows = _rows(con, "label_subjects", nodes)
    missing = sorted(set(nodes) - {row["node_id"] for row in rows})
    if missing:
        msg = f"node {missing[0]} is planned for a label, but is not in the store"
        raise StoreError(msg, hint="sera data verify STORE names damaged files")
    turns: dict[str, dict[str, list[Mapping[str, Any]]]] = {node: {} for node in nodes}
    for row in _rows(con, "label_steps", nodes):
        turns[row["subject"]].setdefault(row["node_id"], []).append(row)
    goals: dict[str, dict[str, str]] = {node: {} for node in nodes}
    for row in _rows(con, "label_goals", nodes):
        goals[row["subject"]][row["node_id"]] = row["goal"]
    started: set[str] = set()
    found = {}
    for row in rows:
        world = stored_world(row["world"], row["profile"])
        node = row["node_id"]
        try:
            if row["task_id"] not in started:
                introduce(world, _task(row))
                started.add(row["task_id"])
            found[node] = _subject(row, world, turns[node], goals[node])
        except (ValueError, KeyError, TypeError) as error:
            msg = f"node {node}: world {world.name!r} cannot load its stored states: {type(error).__name__}: {error}"
            raise StoreError(msg, hint="label it with the version of the world that played it") from error
    return found


def _subject(
    row: Mapping[str, Any],
    world: World[Any],
    turns: Mapping[str, Sequence[Mapping[str, Any]]],
    goals: Mapping[str, str],
) -> Subject:
    return Subject(
        world=world,
        node_id=row["node_id"],
        tree_id=row["tree_id"],
        task_id=row["task_id"],
        depth=row["depth"],
        root_task=row["root_task"],
        parent_goal=row["parent_goal"],
        goal=row["goal"],
        context=row["context"],
        targets=None if row["targets"] is None else json.loads(row["targets"]),
        outcome=row["outcome"],
        message=row["message"],
        start=world.load(row["start_state"]),
        end=world.load(row["end_state"]),
        steps=steps_of(row["node_id"], turns=turns, goals=goals, goal_kind=world.goal_kind),
        changes=changes_of_turns(turns),
        scheduling=row["scheduling"] or "sequential",
        loop=row["loop"],
    )


def _task(row: Mapping[str, Any]) -> Task:
    return Task(
        task_id=row["task_id"],
        world=row["world"],
        profile=row["profile"],
        split=row["split"],
        difficulty=row["difficulty"],
        goal=row["root_task"],
        spec=json.loads(row["spec"]),
        family=row["family"],
        seed=row["seed"],
    )


def _rows(con: duckdb.DuckDBPyConnection, name: str, nodes: Sequence[str]) -> list[dict[str, Any]]:
    cursor = con.execute(query(name), {"nodes": list(nodes)})
    columns = [column[0] for column in cursor.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
