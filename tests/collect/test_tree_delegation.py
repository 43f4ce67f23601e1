"""Launches of a turn: admission, refusals, commits; forks of both selections."""

from __future__ import annotations

import asyncio
import json
from random import Random

import pytest

from collect.records import StateCell
from collect.settings import Budgets, DelegationSettings, TreeSettings
from sera_data.errors import UsageError
from tests.collect.tree_lab import Fake, Pot, call, done, play, script

VOLATILE = {"started_at", "ended_at", "wall_s", "latency_s", "n_cached"}
ADD = call("add", item="a", n=1)


def launches(*targets):
    return call("delegate", launches=[{"targets": t} for t in targets])


def wild(request):
    """Adds, delegates and finishes at random, by the seed of the request."""
    rng = Random(request.sampling.seed)
    agent = request.facts["agent"]
    draw = rng.random()
    if draw < 0.3 and agent.depth < 3:
        return launches(*({"a": n} for n in rng.sample(range(1, 5), rng.randint(1, 2))))
    if draw < 0.7:
        return call("add", item=rng.choice("abc"), n=rng.randint(1, 3))
    return done("made it") if draw < 0.95 else "nonsense"


def forked(selection, k=8, **settings):
    return DelegationSettings(mode="counterfactual", selection=selection, k=k, **settings)


def on_path(tree):
    """Act turns and nodes of the path, without times and without what the fork itself adds."""
    nodes = [n for n in tree.nodes if n["on_path"]]
    ids = {n["node_id"] for n in nodes}
    turns = [t for t in tree.turns if t["node_id"] in ids]
    return [[{k: v for k, v in row.items() if k not in VOLATILE} for row in rows] for rows in (nodes, turns)]


def test_launches_of_a_turn_run_in_order_and_keep_each_others_work():
    tree = play(
        script(
            {
                "": [launches({"a": 1}, {"b": 1}), done()],
                "/t0d0b0": [ADD, done("first")],
                "/t0d1b0": [call("add", item="b", n=1), done("second")],
            }
        ),
        purpose="execution",
    )
    root, first, second = tree.nodes
    assert second["start_state"] == first["end_state"]
    assert root["end_state"] == '{"inventory":{"a":1,"b":1,"z":1}}'
    assert second["order_start"] > first["order_end"]
    assert tree.turns[0]["observation"] == ("Child: first. Steps used: 2 of 20.\nChild: second. Steps used: 2 of 20.")
    spans = [(d["char_start"], d["char_end"]) for d in tree.turns[0]["delegations"]]
    text = tree.turns[0]["text"]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert text[slice(*spans[1])] == '{"targets":{"b":1}}]}'
    assert root["n_children"] == 2


def test_a_stale_commit_is_refused():
    cell = StateCell("a")
    cell.swap(0, "b")
    with pytest.raises(RuntimeError, match="revision 0"):
        cell.swap(0, "c")
    assert cell.state == "b"


def test_the_fourth_level_below_the_root_is_refused():
    deeper = [call("delegate", targets={"a": 1}), done()]
    path, turns = "", {}
    for _ in range(4):
        turns[path] = deeper
        path += "/t0d0b0"
    tree = play(script(turns), purpose="execution", budgets=Budgets(depth=3))
    assert [n["depth"] for n in tree.nodes] == [0, 1, 2, 3]
    last = next(t for t in tree.turns if t["node_id"] == tree.nodes[-1]["node_id"])
    assert last["observation"] == "Refused: depth 4 is deeper than 3, do it yourself."
    refused = last["delegations"][0]
    assert (refused["status"], refused["delegation_id"], refused["targets"]) == ("refused", None, '{"a":1}')
    assert last["ok"] is False
    assert len(tree.branches) == 3


@pytest.mark.parametrize(
    "asked,budgets,statuses,reason",
    [
        ([{"a": 1}, {"b": 1}, {"c": 1}], Budgets(launches_per_turn=2), "LLR", "only 2 launches per turn"),
        (
            [{"a": 1}, {"b": 1}, {"c": 1}],
            Budgets(agents_per_tree=3),
            "LLR",
            "the tree has its 3 agents, do it yourself",
        ),
        ([{"a": 1}, {"a": 1}, {"b": 1}], Budgets(), "LRL", "the same targets were launched in this turn"),
        ([{"a": 1}], Budgets(turns=(20, 0)), "R", "no steps are left for depth 1, do it yourself"),
        ([{"a": 0}, {"b": 1}], Budgets(), "IL", "targets must map items to counts of at least 1"),
        ([{}, "x", [1]], Budgets(), "III", "targets must map items to counts of at least 1"),
    ],
)
def test_refusals_leave_nothing_behind(asked, budgets, statuses, reason):
    tree = play(
        lambda r: launches(*asked) if len(r.messages) == 2 and "/" not in r.session else done(), budgets=budgets
    )
    words = {"L": "launched", "R": "refused", "I": "invalid"}
    found = tree.turns[0]["delegations"]
    assert [d["status"] for d in found] == [words[s] for s in statuses]
    assert {d["reason"] for d in found} - {None} == {reason}
    assert len(tree.nodes) == 1 + statuses.count("L")
    assert len(tree.rubrics) == statuses.count("L")
    assert f"Refused: {reason}." in tree.turns[0]["observation"]


def test_a_malformed_delegate_is_kept_as_an_invalid_launch():
    tree = play(script({"": [call("delegate", context="x"), done()]}))
    found = tree.turns[0]["delegations"]
    assert [(d["status"], d["reason"]) for d in found] == [("invalid", "delegate needs either targets or launches")]
    assert (found[0]["char_start"], found[0]["char_end"]) == (0, len(tree.turns[0]["text"]))
    assert tree.turns[0]["observation"] == "Error: delegate needs either targets or launches"


@pytest.mark.parametrize("selection", ["reference", "recommended"])
@pytest.mark.parametrize("seed", range(8))
def test_a_forked_tree_is_a_plain_sample_on_its_path(selection, seed):
    budgets = Budgets(turns=6, depth=3, agents_per_tree=9)
    one, eight = (
        play(wild, plan_changes={"seed": seed}, budgets=budgets, delegation=forked(selection, k=k)) for k in (1, 8)
    )
    assert on_path(one) == on_path(eight)
    plain = play(wild, plan_changes={"seed": seed}, budgets=budgets)
    assert on_path(one) == on_path(plain)
    assert one.root.success == eight.root.success
    if plain.root.n_delegations:
        assert len(eight.nodes) > len(one.nodes)


@pytest.mark.parametrize("selection", ["reference", "recommended"])
def test_only_the_committed_branch_touches_the_parent(selection):
    def act(request):
        path, step = request.session.partition("/")[2], len(request.messages) // 2 - 1
        if not path:
            return [call("delegate", targets={"a": 1}), done()][step]
        branch = int(path.rpartition("b")[2])
        return [call("add", item="a", n=10 + branch), done(f"branch {branch}")][step]

    tree = play(act, delegation=forked(selection))
    root = tree.nodes[0]
    assert root["end_state"] == '{"inventory":{"a":10,"z":1}}'
    assert tree.turns[0]["observation"] == "Child: branch 0. Steps used: 2 of 20."
    ends = [json.loads(n["end_state"])["inventory"]["a"] for n in tree.nodes[1:]]
    assert ends == [10 + b for b in range(8)]
    assert [n["on_path"] for n in tree.nodes] == [True, True] + [False] * 7
    assert len({n["start_digest"] for n in tree.nodes}) == 1
    assert {b["snapshot_digest"] for b in tree.branches} == {tree.nodes[1]["start_digest"]}
    assert [b["committed"] for b in tree.branches] == [True] + [False] * 7
    assert {(b["k"], b["selection"], b["complete"]) for b in tree.branches} == {(8, selection, True)}
    assert len({n["seed"] for n in tree.nodes}) == 9


def test_the_reference_rule_reserves_full_groups_below_the_cap():
    def act(request):
        depth, step = request.session.count("/"), len(request.messages) // 2 - 1
        return call("delegate", targets={"a": 1 + step}) if depth == 0 and step < 4 else done()

    tree = play(act, delegation=forked("reference"))
    groups = {b["delegation_id"]: (b["k"], b["selection"], b["budget_position"]) for b in tree.branches}
    assert list(groups.values()) == [(8, "reference", 1), (8, "reference", 9), (1, "plain", 17), (1, "plain", 17)]
    assert [b["inclusion_probability"] for b in tree.branches[:3]] == [1.0, None, None]


def test_recommended_forks_m_launches_with_their_probability():
    turns = {
        "": [call("delegate", targets={"a": 1}), call("delegate", targets={"b": 1}), done()],
        "/t0d0b0": [call("delegate", targets={"c": 1}), done()],
        "/t0d0b0/t0d0b0": [done()],
        "/t1d0b0": [done()],
    }
    tree = play(script(turns), delegation=forked("recommended", k=4, forks_per_tree=2))
    drawn = [b for b in tree.branches if b["branch"] == 1]
    assert {(b["depth"], b["inclusion_probability"]) for b in drawn} == {(1, 0.5), (2, 1.0)}
    assert sorted({b["budget_position"] for b in drawn}) == [1, 4]
    assert sum(b["k"] == 1 for b in tree.branches) >= 1
    assert {b["inclusion_probability"] for b in tree.branches if b["branch"] == 0} == {1.0}


def test_launches_inside_a_later_branch_are_plain_and_off_path():
    def act(request):
        depth, step = request.session.count("/"), len(request.messages) // 2 - 1
        return call("delegate", targets={"a": 1}) if depth < 2 and step == 0 else done()

    tree = play(act, delegation=forked("recommended", forks_per_tree=1), plan_changes={"seed": 1})
    nested = [b for b in tree.branches if not b["parent_id"].endswith("b0") and "/" in b["parent_id"]]
    group = next(b for b in tree.branches if b["k"] == 8)
    if group["depth"] == 1:
        assert len(nested) == 7
    assert all(b["k"] == 1 for b in nested)
    off = [n for n in tree.nodes if not n["on_path"]]
    assert off
    written = {r["node_id"] for r in tree.rubrics}
    assert not written & {n["node_id"] for n in off}


def test_a_fault_in_another_branch_leaves_the_path_whole():
    def act(request):
        path, step = request.session.partition("/")[2], len(request.messages) // 2 - 1
        if not path:
            return [call("delegate", targets={"a": 1}), done()][step]
        return call("add", item="crash", n=1) if path.endswith("b3") else [ADD, done()][step]

    for selection in ("reference", "recommended"):
        tree = play(act, delegation=forked(selection))
        assert tree.root.outcome == "finished"
        assert {b["complete"] for b in tree.branches} == {False}
        assert {b["exclusion_reason"] for b in tree.branches} == {"infra_error in branch 3"}
        assert sum(n["outcome"] == "infra_error" for n in tree.nodes) == 1
        assert len(tree.scores) == 7


def test_which_purposes_fork():
    turns = {"": [call("delegate", targets={"a": 1}), done()], "/t0d0b0": [done()]}
    settings = {"delegation": forked("recommended", fork_share=0.5)}
    assert len(play(script(turns), purpose="rubric", **settings).branches) == 8
    counts = {
        len(play(script(turns), purpose="execution", plan_changes={"seed": s}, **settings).branches) for s in range(12)
    }
    assert counts == {1, 8}
    never = {"delegation": forked("recommended", fork_share=0.0)}
    assert len(play(script(turns), purpose="execution", **never).branches) == 1


def test_rows_come_in_the_same_order_whatever_runs_first():
    class Reversed(Fake):
        async def complete(self, request):
            for _ in range(8 - int(request.session.rpartition("b")[2] or 0) if "/" in request.session else 0):
                await asyncio.sleep(0)
            return await super().complete(request)

    stable = [
        [
            [{k: v for k, v in row.items() if k not in VOLATILE} for row in getattr(tree, name)]
            for name in ("nodes", "turns", "rubrics", "branches", "labels", "scores")
        ]
        for policy in (Fake, Reversed)
        for tree in [play(policy("player", wild), budgets=Budgets(turns=5), delegation=forked("recommended"))]
    ]
    assert stable[0] == stable[1]


def test_a_world_without_forks_refuses_counterfactual_trees():
    world = Pot()
    world.fork = "none"
    with pytest.raises(UsageError, match="cannot fork"):
        play(script({"": [done()]}), world=world, delegation=forked("reference"))
    assert TreeSettings().delegation.mode == "plain"
