"""Stored trees as the runner's records, so that what reads a finished tree reads a stored one with the same code.

Invariant: made of stored rows and the world's `load` only; scoring a revived node asks the very prompt that scoring it
in its tree asked. Only trees whose launches ran one after another are revived: there a node's states are its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collect.budget import AgentLedger, Deadline
from collect.records import Clock, DelegationRecord, NodeRecord, Row, StateCell, Step
from collect.world import Action, Agent, Event, World
from schemas.rubric import Rubric
from sera_data.errors import StoreError

OUTSIDE = ("delegate", "finish")


@dataclass(frozen=True, slots=True)
class TreeRows:
    """Rows of one tree, in stored order."""

    tree_id: str
    nodes: Sequence[Row]
    turns: Sequence[Row]
    branches: Sequence[Row]
    rubrics: Sequence[Row]


def revive(world: World[Any], rows: TreeRows) -> dict[str, NodeRecord]:
    """Records of all nodes of a tree by id; StoreError for states that the world cannot load."""
    found: dict[str, NodeRecord] = {}
    launches: dict[str, DelegationRecord] = {}
    turns: dict[str, list[Row]] = {}
    for turn in rows.turns:
        turns.setdefault(turn["node_id"], []).append(dict(turn))
    rubrics = {row["delegation_id"]: row for row in rows.rubrics if row["valid"] and row["phase"] == "collect"}
    branches = {(row["delegation_id"], row["branch"]): row for row in rows.branches}
    for row in sorted(rows.nodes, key=lambda row: row["depth"]):
        parent = found.get(row["parent_id"] or "")
        launch = None
        if parent is not None:
            name = row["delegation_id"]
            branch = branches[name, row["branch"]]
            if branch["scheduling"] == "parallel":
                msg = f"node {row['node_id']} shared its state with others, so it cannot be scored again from the store"
                raise StoreError(msg, hint="only trees of sequential delegation can")
            if name not in launches:
                launches[name] = _launch(parent, row, branch, rubrics.get(name))
            launch = launches[name]
        node = found[row["node_id"]] = _node(world, row, turns.get(row["node_id"], []), parent, launch)
        if launch is not None:
            launch.start = node.start
            launch.branches.append(node)
            if branches[launch.delegation_id, row["branch"]]["committed"]:
                launch.chosen = len(launch.branches) - 1
    return found


def _launch(parent: NodeRecord, row: Row, branch: Row, rubric: Row | None) -> DelegationRecord:
    turn = next(turn for turn in parent.turns if turn["turn_id"] == branch["turn_id"])
    launch = DelegationRecord(
        delegation_id=row["delegation_id"],
        parent=parent,
        turn_id=branch["turn_id"],
        step=turn["step"],
        launch=branch["launch"],
        targets=_parsed(row["targets"]),
        goal=row["goal"],
        context=row["context"],
        start=None,  # set with its first branch, which starts there
        depth=row["depth"],
        turns=row["turn_budget"],
        k=branch["k"],
        selected_by=branch["selected_by"],
    )
    if rubric is not None:
        body = {key: rubric[key] for key in ("items", "success_gate", "failure_conditions", "procedure")}
        launch.rubric = Rubric.model_validate({**body, "items": [dict(item) for item in body["items"]]})
        launch.rubric_id, launch.rubric_stamp = rubric["rubric_id"], rubric["order_stamp"]
    parent.delegations.append(launch)
    return launch


def _node(
    world: World[Any], row: Row, turns: list[Row], parent: NodeRecord | None, launch: DelegationRecord | None
) -> NodeRecord:
    try:
        start = world.load(row["start_state"])
        end = None if row["end_state"] is None else world.load(row["end_state"])
    except (ValueError, KeyError, TypeError) as error:
        msg = f"node {row['node_id']}: world {world.name!r} cannot load its states: {type(error).__name__}: {error}"
        raise StoreError(msg, hint="use the version of the world that played it") from error
    acts = [turn for turn in turns if turn["kind"] == "act"]
    finished = any(call["tool"] == "finish" and call["ok"] for turn in acts for call in turn["tool_calls"])
    return NodeRecord(
        agent=Agent(row["node_id"], row["depth"], _parsed(row["targets"])),
        parent=parent,
        delegation=launch,
        branch=None if launch is None else len(launch.branches),
        goal=row["goal"],
        context=row["context"],
        start=start,
        end=end,
        cell=StateCell(end),
        clock=Clock(row["order_end"]),
        ledger=AgentLedger(None),
        deadline=Deadline(None),
        seed=row["seed"],
        turn_budget=row["turn_budget"],
        order_start=row["order_start"],
        order_end=row["order_end"],
        outcome=row["outcome"],
        ending=None if finished or end is None else world.over(end),
        message=row["message"],
        turns=turns,
        history=[_step(turn) for turn in acts],
        changes=[(call["order_stamp"], json.loads(call["delta"])) for turn in acts for call in _changing(turn)],
        n_turns=row["n_turns"],
    )


def _step(turn: Row) -> Step:
    calls = turn["tool_calls"]
    if not calls:
        said = turn["observation"] if turn["error"] is None else f"Error: {turn['error']}"
        return None, Event(False, said or ""), turn["text"]
    call = calls[0]
    action = Action(call["tool"], json.loads(call["arguments"]))
    if call["tool"] == "finish":
        return action, None, turn["text"]
    delta = None if call["delta"] is None else json.loads(call["delta"])
    return action, Event(call["ok"], call["result"], delta, call["feedback"]), turn["text"]


def _changing(turn: Row) -> list[Mapping[str, Any]]:
    calls: list[Mapping[str, Any]] = turn["tool_calls"]
    return [call for call in calls if call["ok"] and call["delta"] is not None and call["tool"] not in OUTSIDE]


def _parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)
