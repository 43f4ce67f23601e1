"""Random agents, writers, scorers, faults and budgets: whatever happens, rows are whole and the path is unchanged."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from collect.policy import Completion, PolicyError
from collect.settings import Budgets, DelegationSettings, RubricSettings
from tests.collect.test_tree_delegation import on_path, wild
from tests.collect.test_tree_rubrics import RUBRIC, SCORE
from tests.collect.tree_lab import Fake, call, json, play

budgets = st.builds(
    Budgets,
    turns=st.integers(1, 6) | st.tuples(st.integers(1, 6), st.integers(0, 4)),
    depth=st.integers(0, 3),
    launches_per_turn=st.integers(1, 3),
    agents_per_tree=st.none() | st.integers(1, 8),
    repeats=st.none() | st.integers(2, 3),
    retries=st.just(0),
)
forks = st.builds(
    DelegationSettings,
    mode=st.just("counterfactual"),
    selection=st.sampled_from(["reference", "recommended"]),
    k=st.integers(2, 4),
    environment_cap=st.integers(1, 9),
    forks_per_tree=st.integers(0, 4),
)


def chaos(request):
    """A random reply of any role, by the request's seed: good, cut off, nonsense, or a fault."""
    rng = Random(request.sampling.seed)
    draw = rng.random()
    if draw < 0.03:
        return PolicyError("down")
    if draw < 0.06:
        return Completion("x", None, None, "abort", "none", 0)
    if draw < 0.1:
        return Completion('{"tool":', None, None, "length", "none", 0)
    if draw < 0.13 and request.role == "act":
        return call("add", item="crash", n=1)
    if draw < 0.2:
        return rng.choice(["", "{}", "[[", '{"tool":"delegate"}', "é{", '{"tool":"finish","message":""}'])
    return {"act": wild, "writer": lambda r: json.dumps(RUBRIC), "scorer": lambda r: json.dumps(SCORE)}[request.role](
        request
    )


def grow(seed, **changes):
    roles = {"writer": Fake("writer", chaos), "scorer": Fake("scorer", chaos)}
    return play(chaos, plan_changes={"seed": seed}, **roles, **changes)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**40), budgets, forks, st.integers(1, 3))
def test_whatever_happens_rows_are_whole_and_the_path_is_unchanged(seed, limits, delegation, attempts):
    rubric = RubricSettings(attempts=attempts)
    forked = grow(seed, budgets=limits, delegation=delegation, rubric=rubric)
    plain = grow(seed, budgets=limits, rubric=rubric)
    assert on_path(forked) == on_path(plain)
    nodes = {n["node_id"]: n for n in forked.nodes}
    labels = {x["node_id"]: x for x in forked.labels}
    assert set(labels) == set(nodes)
    for node in nodes.values():
        lost = node["outcome"] == "infra_error"
        assert labels[node["node_id"]]["valid"] is not lost
        assert labels[node["node_id"]]["value"] in ((None,) if lost else (0.0, 1.0))
        if node["outcome"] != "finished" and not lost:
            assert labels[node["node_id"]]["value"] == 0.0
        if lost and node["branch"] == 0:
            assert nodes[node["parent_id"]]["outcome"] == "infra_error"
        assert node["n_turns"] <= node["turn_budget"]
        assert node["depth"] <= limits.depth
        if node["parent_id"]:
            parent = nodes[node["parent_id"]]
            assert node["on_path"] == (parent["on_path"] and node["branch"] == 0)
            assert node["order_start"] > parent["order_start"]
    if limits.agents_per_tree is not None:
        assert sum(n["on_path"] for n in nodes.values()) <= limits.agents_per_tree
    valid = {r["rubric_id"]: r for r in forked.rubrics if r["valid"]}
    assert {s["rubric_id"] for s in forked.scores} <= set(valid)
    assert not any(nodes[s["node_id"]]["outcome"] == "infra_error" for s in forked.scores)
