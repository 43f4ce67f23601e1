"""Scoring stored candidates again with another scorer, as an addition to the store.

Invariant: the scorer's prompt is made by the code that made it in the tree, from the stored rows, under the rubric that
was frozen then; every attempt is a row of phase `refresh`, and a node that this scorer has scored is not asked about
again, so the same command continues a run that was stopped. No world step, nothing else of the store changes.

Run: ``sera eval reselect runs/store --scorer transformers:DIR --select rubric``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

import sera_data
from collect.budget import EnvironmentBudget
from collect.config import CollectConfig
from collect.context import TreeContext
from collect.dialect import dialect_for
from collect.label_selection import stored_world
from collect.policies import open_policy, policy_hash, policy_rows, style_of
from collect.policy import Policy
from collect.records import Row
from collect.replay import introduce, task_of_row
from collect.reselect import played_with, query
from collect.revival import TreeRows, revive
from collect.rubrics import score_node
from collect.seeds import Seeds
from collect.services import Services, Style, TreePlan
from collect.shard import Provenance, runs_row
from collect.together import together
from collect.world import Task
from schemas.words import Role, ShardPhase
from sera_data import ShardWriter
from sera_data.config import Config, run_id
from sera_data.plan import Plan, claim_addition, plan_names, read_plan
from sera_data.store import Store

PHASE: ShardPhase = "refresh"
TABLES = ("nodes", "turns", "branches", "rubrics")


class RescoreConfig(Config):
    """What names a run that scores again."""

    scorer: str = Field(description="Spec of the policy that scores.")
    run: str | None = Field(default=None, description="Only candidates of this run; null: of all.")


def rescore(store: Store, config: RescoreConfig) -> tuple[dict[str, float], list[str]]:
    """Score what this scorer has not scored yet: its score by node, old and new, and the additions that were made."""
    return asyncio.run(_rescore(store, config))


async def _rescore(store: Store, config: RescoreConfig) -> tuple[dict[str, float], list[str]]:
    policy = open_policy(config.scorer)
    policies: dict[Role, Policy] = dict.fromkeys(("act", "writer", "scorer"), policy)
    asked = {"scorer": policy.identity.name, "version": policy.identity.version}
    made = []
    try:
        for plan in _plans(store, config, policies, asked):
            await _finish(store, plan, config, policies)
            made.append(plan.name)
    finally:
        await policy.close()
    rows = store.sql(query("rescore_scores"), asked).pl().to_dicts()
    return {row["node_id"]: row["score"] for row in rows}, made


def _plans(
    store: Store, config: RescoreConfig, policies: Mapping[Role, Policy], asked: Mapping[str, Any]
) -> list[Plan]:
    """Own additions that are not finished, then one for every sealed epoch with nodes that they do not hold."""
    plans = [read_plan(store, name) for name in plan_names(store)]
    own = [plan for plan in plans if plan.config_hash == config.hash() and plan.phase == PHASE and not plan.sealed()]
    taken = {node for plan in own for unit in plan.units for node in unit["nodes"]}
    sealed = {plan.epoch for plan in plans if plan.addition is None and plan.sealed()}
    waiting: dict[int, dict[str, list[str]]] = {}
    for row in store.sql(query("rescore_pool"), {"run": config.run, **asked}).pl().to_dicts():
        if row["epoch"] in sealed and row["node_id"] not in taken:
            waiting.setdefault(row["epoch"], {}).setdefault(row["tree_id"], []).append(row["node_id"])
    return own + [
        claim_addition(
            store,
            epoch,
            run_id=run_id("rescore", config),
            phase=PHASE,
            policy_hash=policy_hash(policies),
            config_hash=config.hash(),
            units=[
                {"unit_id": f"u{index:04d}", "tree_id": tree, "nodes": nodes}
                for index, (tree, nodes) in enumerate(trees.items())
            ],
        )
        for epoch, trees in waiting.items()
    ]


async def _finish(store: Store, plan: Plan, config: RescoreConfig, policies: Mapping[Role, Policy]) -> None:
    provenance = Provenance(
        identity=config, phase=PHASE, policies=policy_rows(policies)[-1:], started_at=datetime.now(UTC)
    )
    phases = played_with(store)
    before = plan.committed()
    for unit in plan.units:
        if unit["unit_id"] in before:
            continue
        turns, scores = await _score_tree(store, unit, phases, policies, config.scorer)
        with ShardWriter(store, plan, unit["unit_id"]) as writer:
            writer.add("runs", runs_row(provenance))
            writer.extend("turns", turns)
            writer.extend("scores", scores)
            writer.commit()
    sera_data.seal(store, plan.name)


async def _score_tree(
    store: Store,
    unit: Mapping[str, Any],
    phases: Mapping[str, CollectConfig],
    policies: Mapping[Role, Policy],
    spec: str,
) -> tuple[list[Row], list[Row]]:
    """Turn rows and score rows of the nodes of one tree."""
    tables = {
        name: _rows(store, f"revive_{name}", unit["tree_id"]) for name in ("nodes", "turns", "branches", "rubrics")
    }
    first = tables["nodes"][0]
    task = task_of_row(_rows(store, "revive_task", unit["tree_id"])[0])
    phase = phases[first["run_id"]]
    context = tree_context(task, first, phase, policies, style_of(spec))
    introduce(context.world, task)
    records = revive(context.world, TreeRows(unit["tree_id"], **tables))
    nodes = [records[name] for name in unit["nodes"]]
    before = {node.node_id: len(node.turns) for node in nodes}
    await together(score_node(context, node) for node in nodes)
    tree = {"tree_id": unit["tree_id"], "task_id": task.task_id}
    turns = [row | tree for node in nodes for row in node.turns[before[node.node_id] :]]
    return turns, [row | tree | {"phase": PHASE} for node in nodes for row in node.score_rows]


def tree_context(
    task: Task, root: Row, phase: CollectConfig, policies: Mapping[Role, Policy], style: Style
) -> TreeContext:
    """A stored tree's context: its own settings and seeds; `policies` in `style` unless its run had one of its own."""
    world = stored_world(task.world, task.profile)
    services = Services(
        world=world,
        policies=policies,
        settings=phase.tree_settings(),
        style=style if phase.style == "auto" else phase.style,
        dialect=dialect_for(world, phase.dialect),
    )
    plan = TreePlan(root["run_id"], root["epoch"], task, root["sample"], root["purpose"], phase.seed)
    return TreeContext(
        plan=plan,
        services=services,
        tree_id=root["tree_id"],
        seeds=Seeds(
            run_seed=phase.seed,
            policy_version=policies["scorer"].identity.version,
            task_id=task.task_id,
            sample=root["sample"],
            tree_id=root["tree_id"],
        ),
        environments=EnvironmentBudget(1),
        tools=tuple(tool.name for tool in world.tools()),
        forks=None,
        rubrics=True,
    )


def _rows(store: Store, name: str, tree: str) -> Sequence[Any]:
    rows: list[dict[str, Any]] = store.sql(query(name), {"tree": tree}).pl().to_dicts()
    return rows
