"""The recommended selection: fork launches of a tree that has already run plainly.

Invariant: the draw is made after the tree is complete, by depth, with a probability that is exact and stored; the
branches start from the stored snapshot in isolation and never touch the tree.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from collect.agent import run_agent
from collect.budget import Deadline
from collect.context import TreeContext
from collect.delegation import child_of
from collect.records import DelegationRecord, NodeRecord
from collect.together import together


def draw(depths: Sequence[int], *, m: int, seed: int) -> dict[int, float]:
    """Indices drawn of the candidates at these depths, with their inclusion probability, in index order.

    The m draws are dealt to the depths in rounds of one each; a last incomplete round goes to depths drawn at
    random; within a depth every candidate has the same chance.
    """
    strata: dict[int, list[int]] = {}
    for index, depth in enumerate(depths):
        strata.setdefault(depth, []).append(index)
    dealt = dict.fromkeys(sorted(strata), 0)
    left = m
    open_strata = list(dealt)
    while left >= len(open_strata) > 0:
        for depth in open_strata:
            dealt[depth] += 1
        left -= len(open_strata)
        open_strata = [depth for depth in open_strata if dealt[depth] < len(strata[depth])]
    rng = random.Random(seed)
    extra = set(rng.sample(open_strata, left)) if open_strata else set()
    chosen: dict[int, float] = {}
    for depth, base in dealt.items():
        expected = base + (left / len(open_strata) if depth in open_strata else 0.0)
        for index in rng.sample(strata[depth], base + (depth in extra)):
            chosen[index] = expected / len(strata[depth])
    return dict(sorted(chosen.items()))


async def fork_drawn(context: TreeContext, delegations: Sequence[DelegationRecord]) -> list[NodeRecord]:
    """Draw launches of the finished tree and run their branches 1 to k-1; returns the new nodes."""
    settings = context.settings.delegation
    candidates = [d for d in delegations if d.branches and d.branches[0].outcome != "infra_error"]
    seed = context.seeds.of(context.tree_id, role="fork")
    chosen = draw([d.depth for d in candidates], m=settings.forks_per_tree, seed=seed)
    nodes: list[NodeRecord] = []
    for index, probability in chosen.items():
        delegation = candidates[index]
        delegation.k = settings.k
        delegation.selection = "recommended"
        delegation.budget_position = context.environments.created
        delegation.inclusion_probability = probability
        context.environments.created += settings.k - 1
        for branch in range(1, settings.k):
            node = child_of(context, delegation, branch)
            node.deadline = Deadline(context.settings.budgets.wall_s)
            delegation.branches.append(node)
            nodes.append(node)
    await together(run_agent(context, node) for node in nodes)
    return nodes
