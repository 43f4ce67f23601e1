"""A forest of small trees in memory: the tables and the store's own views that credit reads, on a DuckDB connection.

Invariant: rows follow the schemas and id rules, so that credit SQL runs on them as on a store. Tokens are made up:
turn n of a node has the prompt delta [10 n + 1, 10 n + 2] and three completion tokens with logprobs -0.1, -0.2, -0.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from schemas import TABLES
from sera_data.duck import view_sql

USED = ("tasks", "nodes", "turns", "rubrics", "branches", "labels", "scores", "runs")
VIEWS = ("factual", "verdict_scopes", "verdicts", "leaves")

ZERO: dict[Any, Any] = {pa.string(): "", pa.bool_(): False, pa.float32(): 0.0, pa.float64(): 0.0}
N_COMPLETION = 3


def full_row(table: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values with every other column null, or zero/empty where null is not allowed."""
    columns = TABLES[table].columns
    assert set(values) <= {c.name for c in columns}, set(values) - {c.name for c in columns}

    def default(column: Any) -> Any:
        if column.nullable:
            return None
        return [] if pa.types.is_list(column.type) else ZERO.get(column.type, 0)

    return {c.name: values.get(c.name, default(c)) for c in columns}


def launch(
    delegation_id: str | None, status: str = "launched", span: tuple[int, int] | None = (0, 2)
) -> dict[str, Any]:
    start, end = span or (None, None)
    return {"delegation_id": delegation_id, "status": status, "token_start": start, "token_end": end}


@dataclass
class Forest:
    run_id: str = "run"
    epoch: int = 3
    version: int = 0
    world: str = "textcraft"
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in TABLES})

    def add(self, table: str, **values: Any) -> dict[str, Any]:
        base = {"run_id": self.run_id, "epoch": self.epoch, "shard_id": f"e{self.epoch:06d}.u0000"}
        row = full_row(table, {**base, **values})
        self.rows[table].append(row)
        return row

    def root(
        self,
        task_id: str,
        sample: int,
        reward: float | None,
        *,
        purpose: str = "execution",
        outcome: str = "finished",
        n_turns: int = 1,
        with_ids: bool = True,
    ) -> str:
        node_id = f"r{task_id}{self.epoch}x{sample}"
        shared = {"tree_id": node_id, "task_id": task_id}
        if not any(t["task_id"] == task_id for t in self.rows["tasks"]):
            self.add("tasks", task_id=task_id, world=self.world)
        self._node(node_id, shared, {"sample": sample, "purpose": purpose, "outcome": outcome, "on_path": True})
        self._label(node_id, shared, reward)
        for _ in range(n_turns):
            self.turn(node_id, with_ids=with_ids)
        return node_id

    def child(
        self,
        parent: str,
        step: int,
        *,
        launch_index: int = 0,
        branch: int = 0,
        k: int = 1,
        label: float | None = 1,
        score: float | None = None,
        success: bool | None = None,
        rubric_valid: bool = True,
        outcome: str = "finished",
        n_turns: int = 1,
        complete: bool = True,
    ) -> str:
        """A child of an existing act turn of the parent; the rubric of the delegation is added once."""
        up = self.node(parent)
        delegation = f"{parent}/t{step}d{launch_index}"
        node_id = f"{delegation}b{branch}"
        shared = {"tree_id": up["tree_id"], "task_id": up["task_id"]}
        self._node(
            node_id,
            shared,
            {
                "sample": up["sample"],
                "purpose": up["purpose"],
                "outcome": outcome,
                "parent_id": parent,
                "delegation_id": delegation,
                "branch": branch,
                "depth": up["depth"] + 1,
                "on_path": up["on_path"] and branch == 0,
            },
        )
        self._launch(parent, step, delegation)
        self.add(
            "branches",
            delegation_id=delegation,
            branch=branch,
            k=k,
            node_id=node_id,
            parent_id=parent,
            depth=up["depth"] + 1,
            committed=branch == 0,
            selection="reference",
            complete=complete,
            **shared,
        )
        self._label(node_id, shared, label)
        if score is not None:
            self.score(node_id, score, success=success, rubric_valid=rubric_valid)
        for _ in range(n_turns):
            self.turn(node_id)
        return node_id

    def score(self, node_id: str, score: float, *, success: bool | None = None, rubric_valid: bool = True) -> None:
        node = self.node(node_id)
        rubric_id = f"{node['delegation_id']}~policy~0~0"
        shared = {"tree_id": node["tree_id"], "task_id": node["task_id"], "delegation_id": node["delegation_id"]}
        if not any(r["rubric_id"] == rubric_id for r in self.rows["rubrics"]):
            turn = self.turn(node["parent_id"], kind="rubric", role="writer")
            self.add(
                "rubrics",
                rubric_id=rubric_id,
                turn_id=turn["turn_id"],
                node_id=node["parent_id"],
                writer="policy",
                writer_version=self.version,
                phase="collect",
                valid=rubric_valid,
                **shared,
            )
        self.add(
            "scores",
            rubric_id=rubric_id,
            node_id=node_id,
            scorer="policy",
            scorer_version=self.version,
            phase="collect",
            valid=True,
            final_score=score,
            success=score > 0 if success is None else success,
            **shared,
        )

    def turn(
        self,
        node_id: str,
        *,
        ok: bool = True,
        kind: str = "act",
        role: str = "act",
        with_ids: bool = True,
        delegations: Sequence[dict[str, Any]] = (),
        base: str | None = "last",
    ) -> dict[str, Any]:
        node = self.node(node_id)
        number = sum(t["node_id"] == node_id for t in self.rows["turns"])
        acts = [t for t in self.rows["turns"] if t["node_id"] == node_id and t["kind"] == "act"]
        last = acts[-1]["turn_id"] if acts else None
        return self.add(
            "turns",
            turn_id=f"{node_id}#{number:04d}",
            node_id=node_id,
            tree_id=node["tree_id"],
            task_id=node["task_id"],
            kind=kind,
            role=role,
            step=len(acts) if kind == "act" else None,
            policy="policy",
            policy_version=self.version,
            trainable=with_ids,
            ok=ok,
            base_turn=None if kind != "act" else last if base == "last" else base,
            prompt_ids=[10 * number + 1, 10 * number + 2] if with_ids else None,
            completion_ids=[10 * number + 3, 10 * number + 4, 10 * number + 5] if with_ids else None,
            logprobs=[-0.1, -0.2, -0.3] if with_ids else None,
            logprobs_mode="processed_logprobs" if with_ids else "none",
            delegations=list(delegations),
        )

    def node(self, node_id: str) -> dict[str, Any]:
        return next(n for n in self.rows["nodes"] if n["node_id"] == node_id)

    def acts(self, node_id: str) -> list[dict[str, Any]]:
        return [t for t in self.rows["turns"] if t["node_id"] == node_id and t["kind"] == "act"]

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A connection with the tables and views that credit reads; rows added later are not in it.

        The views are kept as tables, because planning them anew for every statement is most of a test's time.
        """
        connection = duckdb.connect(config={"threads": 1})
        for name in USED:
            data = pa.Table.from_pylist(self.rows[name], schema=_nullable(TABLES[name].schema))
            connection.register("incoming", data)
            connection.execute(f"create table {name} as from incoming")
            connection.unregister("incoming")
        for view in VIEWS:
            connection.execute(f"create table {view} as {view_sql(view)}")
        return connection

    def _node(self, node_id: str, shared: dict[str, Any], values: dict[str, Any]) -> None:
        version = {"policy_version_min": self.version, "policy_version_max": self.version}
        self.add("nodes", node_id=node_id, **shared, **version, **values)

    def _label(self, node_id: str, shared: dict[str, Any], value: float | None) -> None:
        self.add(
            "labels",
            node_id=node_id,
            source="textcraft",
            version="1",
            kind="program",
            use="train",
            valid=value is not None,
            value=value,
            inclusion_probability=1.0,
            **shared,
        )

    def _launch(self, parent: str, step: int, delegation: str) -> None:
        turn = self.acts(parent)[step]
        if not any(d["delegation_id"] == delegation for d in turn["delegations"]):
            index = len(turn["delegations"])
            turn["delegations"].append(launch(delegation, span=(index, index + 1)))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([f.with_nullable(True) for f in schema])
