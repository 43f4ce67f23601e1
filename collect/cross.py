"""Writers x scorers on stored mixed delegations: who writes better rubrics, and who applies them better?

Invariant: the store is only read. Every writer writes for the same delegations and every scorer scores the same
branches under every rubric, with the prompts that a running tree makes. Answers are kept line by line in
`STORE-cross.jsonl`, so the same command continues; a line of another config or store is not used.

Run: ``sera audit STORE --cross cross.yaml`` (the metrics are made by `analysis`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import sera_data
from collect.config import CollectConfig
from collect.context import TreeContext
from collect.cross_config import GLOBAL, STORED, CrossConfig
from collect.fixed_rubrics import FixedRubric, freeze
from collect.label_selection import stored_world
from collect.policies import open_policy, style_of
from collect.policy import Policy
from collect.records import DelegationRecord, NodeRecord, Row
from collect.replay import introduce, task_of_row
from collect.rescoring import TABLES, tree_context
from collect.reselect import played_with, query
from collect.revival import TreeRows, revive
from collect.rubrics import score_node, write_rubric
from collect.together import together
from collect.world import Task
from schemas.rubric import Rubric
from schemas.words import Role
from sera_data.canonical import sha256_json
from sera_data.config import load_config
from sera_data.errors import StoreError, UsageError
from sera_data.place import file_beside
from sera_data.store import Store

Line = dict[str, Any]
Frozen = tuple[Rubric, str]


def run_cross(store: Path, config: Path) -> tuple[list[Line], dict[str, Any]]:
    """Ask everybody; returns one line per writer, scorer and branch, and what it was measured for."""
    opened, settings = sera_data.open(store), load_config(CrossConfig, config)
    probes = opened.sql(query("cross_probes"), {"limit": settings.delegations}).pl().to_dicts()
    if not probes:
        msg = f"store {opened.path} holds no delegation with both successes and failures"
        raise UsageError(msg, hint="collect with delegation.mode=counterfactual, on tasks of middling difficulty")
    return asyncio.run(Cross(opened, settings, probes).run())


class Cross:
    """One crossing: its policies, its probes, and the lines that are there already."""

    def __init__(self, store: Store, config: CrossConfig, probes: Sequence[Mapping[str, Any]]) -> None:
        self.store, self.config, self.probes = store, config, probes
        self.phases = played_with(store)
        self.rubrics = (*config.writers, *config.controls)
        self.stored = _stored_rubrics(store, [row["delegation_id"] for row in probes])
        specs = [*config.writers.values(), *config.scorers.values()]
        self.policies = {spec: open_policy(spec) for spec in dict.fromkeys(specs) if spec not in (STORED, GLOBAL)}
        self.path = file_beside(store.path, f"{store.path.name}-cross.jsonl")
        self.key = sha256_json([config.resolved(), [dict(row) for row in probes], self._identities()])
        self.lines = list(self._kept())
        self.done = {(line["writer"], line["scorer"], line["node_id"]) for line in self.lines}

    def _identities(self) -> dict[str, Any]:
        return {
            spec: [policy.identity.name, policy.identity.version, policy.identity.weights_sha256]
            for spec, policy in self.policies.items()
        }

    def _kept(self) -> Iterator[Line]:
        if not self.path.exists():
            return
        for text in self.path.read_text(encoding="utf-8").splitlines():
            if text.endswith("}"):  # the last line of a killed run may be half
                line = json.loads(text)
                if line.pop("key") == self.key:
                    yield line

    async def run(self) -> tuple[list[Line], dict[str, Any]]:
        """All lines, those kept and those made now."""
        try:
            for tree_id, rows in groupby(self.probes, key=lambda row: row["tree_id"]):
                await self._tree(tree_id, list(rows))
        finally:
            for policy in self.policies.values():
                await policy.close()
        about = {"policies": self._identities(), "key": self.key, "probes": len(self.probes), "file": str(self.path)}
        return self.lines, about

    async def _tree(self, tree_id: str, rows: list[Mapping[str, Any]]) -> None:
        """Every delegation of a tree; nothing is loaded when all of it was answered before."""
        if all(self._answered(name, [row["node_id"] for row in rows]) for name in self.rubrics):
            return
        tables = {name: self._rows(f"revive_{name}", tree_id) for name in TABLES}
        task = task_of_row(self._rows("revive_task", tree_id)[0])
        root = tables["nodes"][0]
        stage = Stage(task, root, self.phases[root["run_id"]])
        world = stored_world(task.world, task.profile)
        introduce(world, task)
        records = revive(world, TreeRows(tree_id, **tables))
        for _, group in groupby(rows, key=lambda row: row["delegation_id"]):
            found = list(group)
            nodes = [records[row["node_id"]] for row in found]
            await self._delegation(stage, nodes, found, _snapshot(nodes[0], tables))

    async def _delegation(
        self, stage: Stage, nodes: list[NodeRecord], rows: list[Mapping[str, Any]], start: Any
    ) -> None:
        launch = nodes[0].delegation
        assert launch is not None
        launch.start = start
        stored = self.stored.get(launch.delegation_id)
        for name in self.rubrics:
            if self._answered(name, [node.node_id for node in nodes]):
                continue
            if name == "other":
                frozen = self._neighbour(launch.delegation_id)
            else:
                spec = "direct" if name == "none" else self.config.writers[name]
                frozen = stored if spec == STORED else await self._written(stage, launch, spec)
            await self._scored(stage, name, frozen, nodes, rows)

    def _neighbour(self, delegation_id: str) -> Frozen | None:
        """The stored rubric of the next probe, in a circle."""
        names = list(self.stored)
        place = names.index(delegation_id) if delegation_id in self.stored else -1
        chosen = names[(place + 1) % len(names)] if names else delegation_id
        return None if chosen == delegation_id else self.stored[chosen]

    def _answered(self, writer: str, nodes: Sequence[str]) -> bool:
        return all((writer, scorer, node) in self.done for scorer in self.config.scorers for node in nodes)

    async def _written(self, stage: Stage, launch: DelegationRecord, spec: str) -> Frozen | None:
        """A rubric of one writer, or None when no attempt was valid."""
        launch.rubric, launch.rubric_id = None, None
        if spec in (GLOBAL, "direct"):
            freeze(launch, "global" if spec == GLOBAL else "direct")
        else:
            await write_rubric(stage.context(self.policies[spec], spec), launch)
        return _frozen(launch)

    async def _scored(
        self, stage: Stage, writer: str, frozen: Frozen | None, nodes: list[NodeRecord], rows: list[Mapping[str, Any]]
    ) -> None:
        launch = nodes[0].delegation
        assert launch is not None
        for scorer, spec in self.config.scorers.items():
            waiting = [i for i, node in enumerate(nodes) if (writer, scorer, node.node_id) not in self.done]
            before = {i: len(nodes[i].score_rows) for i in waiting}
            if frozen is not None:
                launch.rubric, launch.rubric_id = frozen
                source: FixedRubric | Literal["policy"] = "direct" if writer == "none" else "policy"
                context = stage.context(self.policies[spec], spec, source=source)
                await together(score_node(context, nodes[i]) for i in waiting)
            for i in waiting:
                made = nodes[i].score_rows[before[i] :]
                score = made[0]["final_score"] if made and made[0]["valid"] else None
                self._keep({"writer": writer, "scorer": scorer, **_about(rows[i]), "score": score})

    def _keep(self, line: Line) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "key": self.key}) + "\n")
        self.lines.append(line)
        self.done.add((line["writer"], line["scorer"], line["node_id"]))

    def _rows(self, name: str, tree: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.store.sql(query(name), {"tree": tree}).pl().to_dicts()
        return rows


@dataclass(frozen=True, slots=True)
class Stage:
    """A stored tree, ready to be asked about by any policy."""

    task: Task
    root: Row
    phase: CollectConfig

    def context(self, policy: Policy, spec: str, *, source: FixedRubric | Literal["policy"] = "policy") -> TreeContext:
        """The tree's context with one policy as writer and scorer, in its own prompt style."""
        rubric = self.phase.rubric.model_copy(update={"source": source})
        phase = self.phase.model_copy(update={"rubric": rubric})
        roles: dict[Role, Policy] = dict.fromkeys(("act", "writer", "scorer"), policy)
        return tree_context(self.task, self.root, phase, roles, style_of(spec))


def _stored_rubrics(store: Store, delegations: Sequence[str]) -> dict[str, Frozen]:
    """The first valid rubric that was frozen for each delegation, in the order of the delegations."""
    found = {}
    for row in store.sql(query("cross_rubrics"), {"delegations": list(dict.fromkeys(delegations))}).pl().to_dicts():
        body = {key: row[key] for key in ("items", "success_gate", "failure_conditions", "procedure")}
        found[row["delegation_id"]] = (Rubric.model_validate(body), row["rubric_id"])
    return {name: found[name] for name in dict.fromkeys(delegations) if name in found}


def _frozen(launch: DelegationRecord) -> Frozen | None:
    return None if launch.rubric is None or launch.rubric_id is None else (launch.rubric, launch.rubric_id)


def _about(row: Mapping[str, Any]) -> Line:
    return {name: row[name] for name in ("task_id", "delegation_id", "node_id", "y")}


def _snapshot(node: NodeRecord, tables: Mapping[str, Sequence[Row]]) -> Any:
    """The state that the branches start from; StoreError where it is not what the branch's node stored."""
    row = next(row for row in tables["nodes"] if row["node_id"] == node.node_id)
    branch = next(row for row in tables["branches"] if row["node_id"] == node.node_id)
    if row["start_digest"] != branch["snapshot_digest"]:
        msg = f"the state that {branch['delegation_id']} started from is not stored, so no rubric can be written for it"
        raise StoreError(msg, hint="writers can be crossed in worlds whose agents enter without changing the state")
    return node.start
