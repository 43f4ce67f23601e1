"""Judging inside a running tree: nodes that no program can check, and a share of the others for the audit.

Invariant: a judge sees the same case, and so the same prompt, as `sera label` would make of the stored node; its faults
are invalid labels and never end a tree. Nodes lost to infrastructure are not judged.
"""

from __future__ import annotations

from collections.abc import Sequence

from collect.acting import changes_of
from collect.asking import InfrastructureFault
from collect.context import TreeContext
from collect.labels import InlineJudge, LabellerRefused, Opinion, label_row
from collect.records import NodeRecord, committed
from collect.rows import program_verdict, walk
from collect.steps import steps_of
from collect.subject import Subject
from collect.together import together
from schemas.words import LabelUse
from sera_data.canonical import derive_seed


async def judge_tree(context: TreeContext, root: NodeRecord) -> None:
    """Add the judge's label rows to every node of a finished tree that wants them."""
    judge = context.services.judge
    if judge is None or context.plan.purpose not in judge.config.purposes:
        return
    fresh = [node for node in walk(root) if not node.label_rows]
    await _judge(context, judge, [(node, *use) for node in fresh if (use := _use(context, judge, node)) is not None])


async def judge_candidates(context: TreeContext, nodes: Sequence[NodeRecord]) -> None:
    """Add the judge's label rows to finished candidates, all of them, for a selector; where a program can check them
    the rows serve the audit."""
    judge = context.services.judge
    assert judge is not None
    await _judge(context, judge, [(node, "audit" if _checkable(context, node) else "train", 1.0) for node in nodes])


async def _judge(
    context: TreeContext, judge: InlineJudge, wanted: Sequence[tuple[NodeRecord, LabelUse, float]]
) -> None:
    await together(
        _vote(context, judge, node, attempt=attempt, use=use, probability=probability)
        for node, use, probability in wanted
        for attempt in range(judge.config.votes)
    )
    for node, _, _ in wanted:
        node.label_rows.sort(key=lambda row: row["attempt"])


def majority(node: NodeRecord) -> bool | None:
    """What most valid train votes of the node say; None without votes or at a tie."""
    votes = [row["value"] for row in node.label_rows if row["valid"] and row["use"] == "train"]
    middle = sum(votes) / len(votes) if votes else 0.5
    return None if middle == 0.5 else middle > 0.5


def _use(context: TreeContext, judge: InlineJudge, node: NodeRecord) -> tuple[LabelUse, float] | None:
    """How a node is labelled and with which probability it was chosen; None when it is not."""
    if node.outcome == "infra_error":
        return None
    if not _checkable(context, node):
        return "train", 1.0
    share = judge.config.audit_share
    draw = derive_seed(context.plan.seed, node.node_id, "audit") / 2**63
    return ("audit", share) if draw < share else None


def _checkable(context: TreeContext, node: NodeRecord) -> bool:
    try:
        return program_verdict(context, node) is not None
    except InfrastructureFault:
        return False


async def _vote(
    context: TreeContext, judge: InlineJudge, node: NodeRecord, *, attempt: int, use: LabelUse, probability: float
) -> None:
    labeller = judge.labeller
    try:
        opinion = await labeller.label(subject_of(context, node), attempt=attempt)
    except LabellerRefused as refusal:
        opinion = Opinion(value=None, error=str(refusal))
    node.label_rows.append(
        label_row(
            opinion,
            node_id=node.node_id,
            signature=labeller.signature(context.world),
            kind=labeller.kind,
            attempt=attempt,
            use=use,
            inclusion_probability=probability,
        )
    )


def subject_of(context: TreeContext, node: NodeRecord) -> Subject:
    """A finished node as labellers get it."""
    assert node.outcome is not None
    members = _with_helpers(node)
    turns = {member.node_id: [row for row in member.turns if row["kind"] == "act"] for member in members}
    goals = {member.node_id: member.goal for member in members if member is not node}
    return Subject(
        world=context.world,
        node_id=node.node_id,
        tree_id=context.tree_id,
        task_id=context.plan.task.task_id,
        depth=node.depth,
        root_task=context.plan.task.goal,
        parent_goal=None if node.parent is None else node.parent.goal,
        goal=node.goal,
        context=node.context,
        targets=node.agent.targets,
        outcome=node.outcome,
        message=node.message,
        start=node.start,
        end=node.end,
        steps=steps_of(node.node_id, turns=turns, goals=goals, goal_kind=context.world.goal_kind),
        changes=changes_of(node),
        scheduling=node.delegation.scheduling if node.delegation is not None else "sequential",
        loop=context.settings.budgets.loop,
    )


def _with_helpers(node: NodeRecord) -> list[NodeRecord]:
    """The node and its committed descendants."""
    children = [child for launch in node.delegations if (child := committed(launch)) is not None]
    return [node, *(member for child in children for member in _with_helpers(child))]
