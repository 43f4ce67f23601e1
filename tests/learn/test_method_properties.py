"""For every method: one changed score, label or leaf changes exactly the advantages that depend on it, and no other.

What depends on what is written down here in words of the method (who is paid by it, who is compared with whom), never
as arithmetic. Three rounds of changes, each in several groups, are made to one grove of trees of all purposes.
"""

from __future__ import annotations

import pytest

from learn.credit import compute_credit
from learn.method import open_method, shipped
from learn.rule import Rule
from tests.learn.forest import Forest

NAMES = [*shipped(), "sera:recommended", "rao:recommended", "sera_branch:recommended"]
SCORES = {"c": (0.5, 0.45, 0.4, 0.55), "d": (0.6, 0.5, 0.3, 0.45)}
LABELS = {"c": (1, 0, 1, 0), "d": (1, 0, 0, 1)}


def grove() -> Forest:
    """Three execution trees, one with a fork of four; three delegation trees; two rubric trees with a fork of four."""
    forest = Forest(epoch=3)
    roots = [forest.root("a", sample, reward, n_turns=2) for sample, reward in enumerate((1, 0, 1))]
    for branch, (score, label) in enumerate(zip((0.9, 0.6, 0.2, 0.4), (1, 1, 0, 0), strict=True)):
        forest.child(roots[0], 0, branch=branch, k=4, score=score, label=label)
    forest.child(roots[0], 1, score=0.5, label=1)
    for root, score, below in ((roots[1], 0.3, 0.35), (roots[2], 0.7, 0.8)):
        child = forest.child(root, 0, score=score, label=int(score > 0.5))
        forest.child(child, 0, score=below, label=int(below > 0.5))
    for sample, (reward, launches) in enumerate(((1, (0, 0, 1)), (0, (0,)), (1, ()))):
        root = forest.root("b", sample, reward, purpose="delegation", n_turns=2)
        for index, step in enumerate(launches):
            forest.child(root, step, launch_index=index, label=1)
    for sample, name in enumerate("cd"):
        root = forest.root("c", sample, 1, purpose="rubric")
        for branch in range(4):
            forest.child(root, 0, branch=branch, k=4, score=SCORES[name][branch], label=LABELS[name][branch])
    for row in forest.rows["scores"]:
        row["turn_id"] = forest.turn(row["node_id"], kind="score", role="scorer")["turn_id"]
    return forest


def node_of(forest: Forest, task: str, sample: int, path: str = "") -> str:
    return f"r{task}{forest.epoch}x{sample}{path}"


def set_score(forest: Forest, node: str, value: float) -> None:
    next(s for s in forest.rows["scores"] if s["node_id"] == node)["final_score"] = value


def flip(forest: Forest, node: str) -> None:
    row = next(r for r in forest.rows["labels"] if r["node_id"] == node)
    row["value"] = 1 - row["value"]


def changed_groves() -> list[tuple[Forest, dict[str, set[str]]]]:
    """Per round a grove and what was changed in it: nodes by kind."""
    first, second, third = (grove() for _ in range(3))
    scored = node_of(first, "a", 0, "/t0d0b0")
    ranked = node_of(first, "c", 0, "/t0d0b0")
    set_score(first, scored, 0.92)
    set_score(first, ranked, 0.47)
    flip(first, node_of(first, "b", 1))
    child, branch = node_of(second, "a", 1, "/t0d0b0"), node_of(second, "c", 1, "/t0d0b3")
    flip(second, child)
    flip(second, branch)
    leaf = second.child(node_of(second, "b", 0, "/t0d0b0"), 0)
    flip(third, node_of(third, "a", 1))
    return [
        (first, {"score": {scored, ranked}, "label": {node_of(first, "b", 1)}, "leaf": set()}),
        (second, {"score": set(), "label": {child, branch}, "leaf": {leaf}}),
        (third, {"score": set(), "label": {node_of(third, "a", 1)}, "leaf": set()}),
    ]


def success_depends(nodes: dict, change: dict[str, set[str]]) -> set[str]:
    """A root's label decides about its whole tree, a child's about itself; a new leaf is paid as well."""
    roots = {n for n in change["label"] if nodes[n]["parent_id"] is None}
    trees = {nodes[n]["tree_id"] for n in roots}
    return {n for n, row in nodes.items() if row["tree_id"] in trees} | (change["label"] - roots) | change["leaf"]


def depends(forest: Forest, rule: Rule, change: dict[str, set[str]], before: set[str]) -> set[str]:
    """Trajectories of a rule whose advantage depends on the change."""
    params = dict(rule.params)
    nodes = {n["node_id"]: n for n in forest.rows["nodes"]}
    if rule.path.stem == "execution":
        return execution_depends(nodes, params, change) & before
    if rule.path.stem == "delegation":
        moved = any(nodes[n]["purpose"] == "delegation" and nodes[n]["depth"] == 0 for n in change["label"])
        if moved:  # its own events are paid otherwise, the other trees meet another mean
            return before
        grown = {nodes[leaf]["tree_id"] for leaf in change["leaf"]}
        return {t for t in before if grown and nodes[t]["tree_id"] not in grown} | {
            nodes[leaf]["parent_id"] for leaf in change["leaf"]
        }
    if rule.path.stem == "success":
        return success_depends(nodes, change) & before
    if (params["epochs"] == "even") or not change["score"] | change["label"]:
        return set()
    k = params["k"]
    hit = {
        nodes[n]["delegation_id"]
        for kind in ("score", "label")
        for n in change[kind]
        if nodes[n]["purpose"] == "rubric" and nodes[n]["depth"] and nodes[n]["branch"] < k
    }
    if rule.path.stem == "scorer":  # every score of the delegation has another mean of the others, or another reward
        turns = {s["turn_id"] for s in forest.rows["scores"] if s["delegation_id"] in hit}
        return turns & before
    return before if hit else set()  # two rubrics: the one is paid otherwise, the other is compared with it


def execution_depends(nodes: dict, params: dict, change: dict[str, set[str]]) -> set[str]:
    own = {n for n in nodes if nodes[n]["purpose"] == params["purpose"]}
    by_label = {n for n in own & change["label"] if nodes[n]["depth"] == 0 or params["reward"] == "verdict"}
    paid = by_label | (own & change["score"] if params["reward"] == "rubric" else set())
    return paid | {n for n in own if any(compared(nodes[n], nodes[p], params) for p in paid)}


def compared(one: dict, other: dict, params: dict) -> bool:
    """Whether the baseline of one node holds the reward of another."""
    if one["node_id"] == other["node_id"]:
        return False
    is_branch = (one["branch"] is not None and one["delegation_id"].endswith("x0/t0d0")) or one["purpose"] == "rubric"
    if params["branches"] != "factual" and one["depth"] and is_branch:
        return other["delegation_id"] == one["delegation_id"]
    if not one["on_path"] or not other["on_path"] or other["tree_id"] == one["tree_id"]:
        return params["normalise"] == "deviation" and one["depth"] == other["depth"] == 0
    if one["depth"] and params["child_baseline"] == "depth":
        return other["depth"] == one["depth"]
    return other["depth"] == 0


def advantages(connection, method) -> dict[tuple[str, str, str, int], float]:
    rows = compute_credit(connection, method).rows
    names = ("stage", "trajectory_id", "turn_id", "token_start")
    return {tuple(row[n] for n in names): row["advantage"] for row in rows.iter_rows(named=True)}


@pytest.fixture(scope="module")
def rounds():
    still = grove().connect()
    return still, [(forest, forest.connect(), change) for forest, change in changed_groves()]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_change_moves_what_depends_on_it_and_nothing_else(rounds, name):
    method = open_method(name)
    still, changes = rounds
    before = advantages(still, method)
    assert before, "the grove gives every method some credit"
    for forest, connection, change in changes:
        after = advantages(connection, method)
        moved = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        if method.control == "coin_flip":
            assert {key for key in moved if key[0] != "delegation"} == set(), "coins do not look at labels or scores"
            continue
        wanted = {
            (stage, trajectory)
            for rule in method.rules
            for stage in rule.stages
            for trajectory in depends(
                forest, rule, change, {t for s, t, *_ in before.keys() | after.keys() if s == stage}
            )
        }
        if method.control == "shuffled":
            groups = {forest_group(forest, t) for _, t in wanted}
            assert {forest_group(forest, t) for _, t, *_ in moved} <= groups
            continue
        assert {(stage, trajectory) for stage, trajectory, *_ in moved} == wanted


def forest_group(forest: Forest, trajectory: str) -> str:
    return trajectory[1]  # 'r' + one letter of the task
