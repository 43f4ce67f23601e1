"""Rows of a finished tree: nodes, turns, rubrics, branches, labels, scores, in deterministic order.

Invariant: rows come out depth first (launches by turn and index, branches by index), whatever order they ran in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collect.acting import changes_of
from collect.asking import InfrastructureFault
from collect.context import TreeContext, in_world
from collect.records import DelegationRecord, NodeRecord, Row
from collect.success import counts_as_success
from collect.workload import label_details
from collect.world import Verdict
from sera_data.canonical import canonical_json, sha256_text


def walk(node: NodeRecord) -> Iterator[NodeRecord]:
    """The node and everything below it, depth first."""
    yield node
    for delegation in node.delegations:
        for branch in delegation.branches:
            yield from walk(branch)


def delegations_of(root: NodeRecord, *, on_path: bool = False) -> list[DelegationRecord]:
    """All launches of a tree in order; with `on_path` only those made by on-path nodes."""
    return [d for node in walk(root) if node.on_path or not on_path for d in node.delegations]


def tree_rows(context: TreeContext, root: NodeRecord) -> dict[str, list[Row]]:
    """Rows by table, without run, epoch and shard."""
    tree = {"tree_id": context.tree_id, "task_id": context.plan.task.task_id}
    nodes = list(walk(root))
    launches = delegations_of(root)
    programs = [(node, _label_row(context, node)) for node in nodes]
    labels = [label for node, row in programs for label in (row, *node.label_rows) if label is not None]
    return {
        "tasks": [_task_row(context)],
        "nodes": [_node_row(context, node) for node in nodes],
        "turns": [row | tree for node in nodes for row in node.turns],
        "rubrics": [row | tree for launch in launches for row in launch.rubric_rows],
        "branches": [row | tree for launch in launches for row in _branch_rows(context, launch)],
        "labels": [row | tree for row in labels],
        "scores": [row | tree for node in nodes for row in node.score_rows],
    }


def program_verdict(context: TreeContext, node: NodeRecord) -> Verdict | None:
    """What the world's program says of a node's work; None when the goal is not checkable."""
    if node.checked is not None:
        return node.checked[0]
    changes = changes_of(node)
    return in_world(lambda: context.world.verdict(node.start, node.end, node.agent.targets, changes=changes))


def succeeded(context: TreeContext, node: NodeRecord, verdict: Verdict | None) -> bool | None:
    """Success needs an explicit finish with a message, or that the world ended in success while the agent worked.

    None after infra_error or without a verdict. A loop is a failure unless the settings let the verdict decide.
    """
    if node.outcome is None or node.outcome == "infra_error" or verdict is None:
        return None
    return counts_as_success(
        verdict,
        outcome=node.outcome,
        called_finish=node.called_finish,
        message=node.message,
        loop=context.settings.budgets.loop,
    )


def _task_row(context: TreeContext) -> Row:
    task = context.plan.task
    return {
        "task_id": task.task_id,
        "world": task.world,
        "profile": task.profile,
        "split": task.split,
        "difficulty": task.difficulty,
        "family": task.family,
        "seed": task.seed,
        "goal": task.goal,
        "spec": canonical_json(task.spec),
        "upstream_id": task.upstream_id,
    }


def _node_row(context: TreeContext, node: NodeRecord) -> Row:
    world = context.world
    start = node.start_text or world.dump(node.start)
    end = None if node.outcome == "infra_error" else node.end_text or world.dump(node.end)
    low, high = node.versions or (None, None)
    ended_at = node.ended_at or node.started_at
    targets = node.agent.targets
    return {
        "node_id": node.node_id,
        "tree_id": context.tree_id,
        "task_id": context.plan.task.task_id,
        "sample": context.plan.sample,
        "parent_id": node.parent.node_id if node.parent else None,
        "delegation_id": node.delegation.delegation_id if node.delegation else None,
        "branch": node.branch,
        "on_path": node.on_path,
        "depth": node.depth,
        "purpose": context.plan.purpose,
        "goal": node.goal,
        "targets": None if targets is None else canonical_json(targets),
        "context": node.context,
        "start_state": start,
        "end_state": end,
        "start_digest": sha256_text(start),
        "end_digest": None if end is None else sha256_text(end),
        "outcome": node.outcome,
        "message": node.message,
        "turn_budget": node.turn_budget,
        "token_budget": context.settings.budgets.tokens,
        "n_turns": node.n_turns,
        "n_children": sum(bool(launch.branches) for launch in node.delegations),
        "n_prompt_tokens": node.n_prompt_tokens,
        "n_completion_tokens": node.n_completion_tokens,
        "policy_version_min": low,
        "policy_version_max": high,
        "seed": node.seed,
        "order_start": node.order_start,
        "order_end": node.order_end,
        "error": node.error,
        "started_at": node.started_at,
        "ended_at": ended_at,
        "wall_s": (ended_at - node.started_at).total_seconds(),
    }


def _branch_rows(context: TreeContext, launch: DelegationRecord) -> list[Row]:
    nodes = {node.branch: node for node in launch.branches}
    failed = [branch for branch, node in nodes.items() if node.outcome == "infra_error"]
    missing = launch.k - len(nodes)
    reason = None
    if failed:
        reason = f"infra_error in branch {', '.join(map(str, failed))}"
    elif missing:
        reason = f"{missing} branches did not start"
    digest = sha256_text(launch.start_text or context.world.dump(launch.start))
    return [
        {
            "delegation_id": launch.delegation_id,
            "branch": branch,
            "k": launch.k,
            "node_id": nodes[branch].node_id if branch in nodes else None,
            "parent_id": launch.parent.node_id,
            "depth": launch.depth,
            "turn_id": launch.turn_id,
            "launch": launch.launch,
            "committed": branch == launch.chosen,
            "seed": context.seeds.of(f"{launch.delegation_id}b{branch}", role="node"),
            "snapshot_digest": digest,
            "scheduling": launch.scheduling,
            "selection": launch.selection,
            "selected_by": launch.selected_by,
            "selection_reason": launch.selection_reason,
            "budget_position": launch.budget_position,
            "inclusion_probability": 1.0 if branch == 0 else launch.inclusion_probability,
            "complete": reason is None,
            "exclusion_reason": reason,
        }
        for branch in range(launch.k)
    ]


def _label_row(context: TreeContext, node: NodeRecord) -> Row | None:
    row: dict[str, Any] = {
        "node_id": node.node_id,
        "source": context.world.name,
        "version": context.world.version,
        "attempt": 0,
        "kind": "program",
        "use": "train",
        "inclusion_probability": 1.0,
        "valid": False,
        "value": None,
        "error": None,
        "details": None,
        "raw_text": None,
        "prompt_sha256": None,
        "params": None,
        "prompt_tokens": None,
        "completion_tokens": None,
        "latency_s": None,
        "cost": None,
    }
    if node.outcome == "infra_error":
        row["error"] = f"infra_error: {node.error}"
        return row
    try:
        verdict = program_verdict(context, node)
    except InfrastructureFault as fault:
        row["error"] = str(fault)
        return row
    if verdict is None:
        return None
    row["valid"] = True
    row["value"] = 1.0 if succeeded(context, node, verdict) else 0.0
    row["details"] = label_details(context.world, verdict, start=node.start, targets=node.agent.targets)
    return row
